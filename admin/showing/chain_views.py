"""Strictly ordered destinations as responses of the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from admin.models.responses.strict_ordering import (
    CostView,
    GapView,
    GroupView,
    HolderView,
    ObstacleView,
    SegmentView,
    SegmentWaitingView,
    StrictOrderView,
)
from admin.showing.strict_orders import Place, StrictOrder, StrictOrders
from bus.domain.destination import Destination
from bus.domain.ordering.chain import Chain, Lease, Segment
from bus.domain.ordering.obstacles import BRING_BACK
from bus.domain.times import format_time
from bus.localized_text import AnyText, localized, localized_text_of
from bus.security.principals import Principal


def order_view(orders: StrictOrders, found: StrictOrder, principal: Principal) -> StrictOrderView:
    """Return a destination as a response of the API, for a principal who may see the whole bus or only that."""
    chain = found.chain or Chain()
    destination = orders.destination(found.code)
    return StrictOrderView(
        destination=found.code,
        known=found.chain is not None,
        epoch=chain.epoch,
        sender=_holder(orders, chain.sender, principal),
        reader=_holder(orders, chain.reader, principal),
        producer=producer_view(chain.producer, principal) if chain.producer.owner else None,
        send=list(chain.send),
        consume=[_segment(orders, destination, chain, segment) for segment in chain.consume],
        gaps=[GapView(group=gap.group, epoch=gap.epoch, drained=sorted(gap.drained)) for gap in chain.gaps],
        groups=[_group(place) for place in found.places.values()],
        blocked=_blocked(found),
    )


def _blocked(found: StrictOrder) -> list[ObstacleView]:
    if found.chain is None:
        return [_obstacle(found.trouble, BRING_BACK)]
    return [_obstacle(one.what, one.next_step) for one in found.obstacles]


def _obstacle(what: AnyText, next_step: AnyText) -> ObstacleView:
    return ObstacleView(
        what=str(what),
        what_text=localized_text_of(what),
        next_step=str(next_step),
        next_step_text=localized_text_of(next_step),
    )


def _holder(orders: StrictOrders, lease: Lease, principal: Principal) -> HolderView | None:
    if not lease.owner:
        return None
    member = orders.member(lease.owner)
    sees_all = principal.may("read", None)
    return HolderView(
        owner=lease.owner if sees_all else None,
        node=member.node if member is not None and sees_all else None,
        url=lease.url,
        epoch=lease.epoch,
        alive=member is not None,
    )


def producer_view(lease: Lease, principal: Principal) -> HolderView:
    """Return who alone produces."""
    owner = lease.owner if principal.may("read", None) else None
    return HolderView(owner=owner, node=None, url=lease.url, epoch=lease.epoch, alive=None)


def _segment(orders: StrictOrders, destination: Destination, chain: Chain, segment: Segment) -> SegmentView:
    return SegmentView(
        group=segment.group,
        epoch=segment.epoch,
        since=format_time(segment.since) if segment.since else None,
        current=segment is chain.current,
        lost=segment.is_lost,
        drained=sorted(segment.drained),
        waiting=waiting_view(orders.waiting(destination, segment)),
    )


def _group(place: Place) -> GroupView:
    state, has_messages = place.state, place.has_messages
    trouble: AnyText = state.trouble if state is not None else localized("it is not configured here")
    return GroupView(
        name=place.name,
        configured=state is not None,
        answers=state.answers if state is not None else None,
        empty=not has_messages if has_messages is not None else None,
        behind=place.is_behind,
        trouble=str(trouble),
        trouble_text=localized_text_of(trouble),
    )


def waiting_view(found: Mapping[str, int | None]) -> list[SegmentWaitingView]:
    """Return what waits, by subscription in the order of their names."""
    return [SegmentWaitingView(subscription=name, waiting=found[name]) for name in sorted(found)]


def known_sum(waiting: Mapping[str, int | None]) -> int | None:
    """Return how many messages wait; None while some of it is not known."""
    known = [count for count in waiting.values() if count is not None]
    return sum(known) if len(known) == len(waiting) else None


def costs_view(found: Sequence[AnyText]) -> list[CostView]:
    """Return the costs of a decision."""
    return [CostView(what=str(said), what_text=localized_text_of(said)) for said in found]
