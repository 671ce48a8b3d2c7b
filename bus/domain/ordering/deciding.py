"""Decisions of a person about a chain, and their costs."""

from __future__ import annotations

from bus.domain.ordering.chain import Chain, Gap, Lease, Segment, abandoned, produced_by
from bus.errors import Conflict, NotFound
from bus.localized_text import AnyText, localized


def segment_of(code: str, chain: Chain, group: str) -> Segment:
    """Return the unread or lost segment of a group for which a person may end the wait.

    Lost ones come first.

    Raises
    ------
    NotFound
        The group has nothing to be read.
    Conflict
        It takes messages now.
    """
    found = sorted((one for one in chain.consume if one.group == group), key=lambda one: not one.is_lost)
    if not found:
        raise NotFound(
            localized("group {group} has nothing that is to be read of {code}", group=repr(group), code=repr(code)),
            hint=localized("see: {command}", command=f"bus ordering show {code}"),
        )
    if found[0] is chain.current:
        raise Conflict(
            localized(
                "group {group} takes the messages to {code} now; nothing was changed",
                group=repr(group),
                code=repr(code),
            ),
            hint=localized("wait until senders moved on: they do when it does not take the next message"),
        )
    return found[0]


def abandon(code: str, chain: Chain, group: str) -> Chain:
    """Return the chain without the messages that a group still has; raises as ``segment_of`` does."""
    segment_of(code, chain, group)
    return abandoned(chain, group)


def gaps_of(chain: Chain, group: str) -> list[Gap]:
    """Return the gaps of messages that are removed from a chain unread when a group is abandoned."""
    return [gap for gap in abandoned(chain, group).gaps if gap not in chain.gaps]


def producer_of(code: str, chain: Chain) -> Lease:
    """Return the producer that alone may send; raises ``NotFound`` when there is none."""
    if not chain.producer.owner:
        raise NotFound(
            localized("no producer has {code} for itself; nothing was changed", code=repr(code)),
            hint=localized("see: {command}", command=f"bus ordering show {code}"),
        )
    return chain.producer


def release_producer(code: str, chain: Chain) -> Chain:
    """Return the chain without a producer; raises as ``producer_of`` does."""
    producer_of(code, chain)
    return produced_by(chain, "", "")


def cost_of_pending(group: str, pending: int, *, is_complete: bool) -> list[AnyText]:
    """Return the effects on deliveries that are pending in the store, and that a group took.

    ``is_complete`` is whether all were counted.
    """
    if is_complete and not pending:
        return []
    count = (
        localized("{count} deliveries of what group {group} took are pending in the store", count=pending, group=group)
        if is_complete
        else localized(
            "at least {count} deliveries of what group {group} took are pending in the store",
            count=pending,
            group=group,
        )
    )
    return [count, localized("no alarm reports those that are not resent")]


def cost_of_abandoning(segment: Segment, waiting: int | None) -> list[AnyText]:
    """Return the messages that are lost or come out of order when the wait for a group is ended.

    Parameters
    ----------
    waiting
        How many messages are known to wait there, summed over subscriptions; None when that is unknown.
    """
    group = segment.group
    if segment.is_lost:
        return [
            localized("group {group} lost its disks: its unread messages are gone", group=group),
            localized("what was sent after that is delivered now"),
            localized("messages that are gone are delivered only if they are resent: their traces stay pending"),
        ]
    count = (
        localized("{count} messages are known to wait on group {group}", count=waiting, group=group)
        if waiting is not None
        else localized("nobody can say how many messages wait on group {group}", group=group)
    )
    return [
        count,
        localized("what was sent after them is delivered now, before them"),
        localized("if the group comes back, they are sent again behind all others, out of order"),
        localized("if its disks are lost, nobody gets them unless they are resent: their traces stay pending"),
    ]


def cost_of_releasing(owner: str) -> list[AnyText]:
    """Return the effects on a producer that loses its exclusive lease."""
    return [
        localized("what the spool of {owner} still has is refused from now on, also when it comes back", owner=owner),
        localized("another producer may send at once, without waiting for that"),
    ]
