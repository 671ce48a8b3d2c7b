"""Routes of the chains of strictly ordered destinations: how they are, and what people decide about them."""

from __future__ import annotations

from functools import partial
from typing import Final

from fastapi import APIRouter

from admin.deps import Configurer, Reader, ServicesDep
from admin.models.base import Code
from admin.models.repair import AbandonBody, ReleaseProducerBody
from admin.models.responses.strict_ordering import AbandonedView, ReleasedProducerView, StrictOrderView
from admin.requests.audited import AuditedRoute, NotingDep
from admin.showing.chain_views import costs_view, known_sum, order_view, producer_view, waiting_view
from admin.showing.strict_orders import StrictOrders
from bus.domain.destination import Destination
from bus.domain.ordering.chain import Chain, Lease, Segment
from bus.domain.ordering.deciding import (
    abandon,
    cost_of_abandoning,
    cost_of_pending,
    cost_of_releasing,
    gaps_of,
    producer_of,
    release_producer,
    segment_of,
)
from bus.errors import Conflict
from bus.localized_text import localized

router = APIRouter(prefix="/destinations/{code}/ordering", tags=["ordering"], route_class=AuditedRoute)
_FORCE: Final = localized("remove it all the same only if it is lost for good: {option}", option="force")


@router.get("")
async def get_strict_order(code: Code, services: ServicesDep, principal: Reader) -> StrictOrderView:
    """Return the chain of a strictly ordered destination, its groups of brokers, and what blocks; 422 for others.

    ``send`` are the groups that may take messages, the one that does first; ``consume`` is what is to be read, oldest
    first. ``groups`` are as the process that answers sees them: it asks those that it has configured. ``blocked``
    is empty while messages flow, or will within seconds.
    """
    found = await services.strict_orders.of(code)
    return order_view(services.strict_orders, found, principal)


@router.post("/abandon")
async def abandon_group(
    code: Code, body: AbandonBody, services: ServicesDep, noting: NotingDep, _: Configurer
) -> AbandonedView:
    """Abandon a group of brokers: its remaining messages are lost permanently; a dry run returns the cost.

    409 for the group that takes messages now, and for one that answers, or that is not configured at the process that
    is asked, unless ``force`` or the group lost its disks; 404 for one that has nothing to be read. If the group comes
    back, what it holds is sent again behind all others. Pending messages that it took can be resent from then on.
    """
    orders = services.strict_orders
    destination = orders.destination(code)
    chain = (await orders.documents.read(code)).chain
    segment = segment_of(code, chain, body.group)
    if not (body.force or segment.is_lost):
        _check_lost(orders, destination, body.group)
    waiting = orders.waiting(destination, segment)
    count = known_sum(waiting)
    pending = await orders.pending(code, gaps_of(chain, body.group))
    costs = cost_of_abandoning(segment, count)
    costs += cost_of_pending(body.group, pending.deliveries, is_complete=pending.is_complete)
    if not body.dry_run:
        await orders.documents.change(code, partial(_abandoned, code, segment))
    noting.compare({}, {**body.model_dump(), "epoch": segment.epoch, "waiting": "unknown" if count is None else count})
    return AbandonedView(
        group=body.group,
        epoch=segment.epoch,
        dry_run=body.dry_run,
        waiting=waiting_view(waiting),
        count=count,
        costs=costs_view(costs),
    )


@router.post("/release-producer")
async def release_strict_producer(
    code: Code, body: ReleaseProducerBody, services: ServicesDep, noting: NotingDep, principal: Configurer
) -> ReleasedProducerView:
    """End a producer's exclusive sending to a destination; a dry run returns the cost.

    What that producer's spool still has is refused from then on. 404 when no producer has it.
    """
    orders = services.strict_orders
    orders.destination(code)
    lease = producer_of(code, (await orders.documents.read(code)).chain)
    if not body.dry_run:
        await orders.documents.change(code, partial(_released, code, lease))
    noting.compare({}, {**body.model_dump(), "producer": lease.owner, "epoch": lease.epoch})
    return ReleasedProducerView(
        producer=producer_view(lease, principal),
        dry_run=body.dry_run,
        costs=costs_view(cost_of_releasing(lease.owner)),
    )


def _abandoned(code: str, seen: Segment, chain: Chain) -> Chain:
    """Return the chain without a segment; raise ``Conflict`` if its group has another one by now."""
    if segment_of(code, chain, seen.group).epoch != seen.epoch:
        raise _changed(code)
    return abandon(code, chain, seen.group)


def _released(code: str, seen: Lease, chain: Chain) -> Chain:
    if producer_of(code, chain).epoch != seen.epoch:
        raise _changed(code)
    return release_producer(code, chain)


def _changed(code: str) -> Conflict:
    return Conflict(
        localized("the chain of {code} changed meanwhile; nothing was changed", code=repr(code)),
        hint=localized("see: {command}", command=f"bus ordering show {code}"),
    )


def _check_lost(orders: StrictOrders, destination: Destination, name: str) -> None:
    """Raise ``Conflict`` unless this process is certain that a group cannot be read."""
    group = orders.group(destination, name)
    if group is None:
        raise Conflict(
            localized(
                "group {group} is not configured here, so it is unknown whether it is available", group=repr(name)
            ),
            hint=_FORCE,
        )
    if group.lags() is not None:
        raise Conflict(
            localized("group {group} answers: what it holds is read in order; nothing was changed", group=repr(name)),
            hint=_FORCE,
        )
