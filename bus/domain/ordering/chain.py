"""The groups of brokers that hold the messages of one strictly ordered destination, with their sender and reader.

A chain is one document, so that each change of it is one compare-and-set and none can be half done. It has a list for
who sends and one for who reads. Only the head of ``send`` takes messages. A group is appended to ``consume`` before
anything is written to it, and is removed once all subscriptions have read it to its end and it takes no more messages;
until then it cannot join ``send``.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

import msgspec

from bus.errors import InvalidMessage
from bus.localized_text import localized

LEAST_TAKEOVER: Final = 2.0
MOST_TAKEOVER: Final = 3_600.0
TAKEOVER: Final = 6.0
"""Seconds of a process of the bus that sends to a strict order, or reads it, unless it is set otherwise."""
MOST_GAPS: Final = 32


class Role(enum.StrEnum):
    """Task that exactly one process has for a chain: a receiver sends to it, a dispatcher reads it."""

    SENDER = "sender"
    READER = "reader"


class Lease(msgspec.Struct, frozen=True):
    """Owner of a role: no process while ``owner`` is empty.

    Attributes
    ----------
    url
        Address of the owner for other processes.
    epoch
        The chain's when it was taken.
    beat
        Raised as long as the owner lives.
    takeover_after
        Seconds without a sign of life after which another one may take the role; 0 for never, where it is a producer's.
    """

    owner: str = ""
    url: str = ""
    epoch: int = 0
    beat: int = 0
    takeover_after: float = 0.0


def check_takeover(seconds: float) -> float:
    """Return ``takeover_after`` of a producer's lease; raises ``InvalidMessage`` for one that is out of bounds."""
    if not LEAST_TAKEOVER <= seconds <= MOST_TAKEOVER:  # NaN as well
        raise InvalidMessage(
            localized(
                "takeover_after is {least} to {most} seconds, or not set",
                least=f"{LEAST_TAKEOVER:g}",
                most=f"{MOST_TAKEOVER:g}",
            ),
            field="takeover_after",
        )
    return float(seconds)


class Segment(msgspec.Struct, frozen=True):
    """Messages that a group took during one time as the head of ``send``.

    Attributes
    ----------
    epoch
        The chain's when it became the head; all that was written since has this epoch or a greater one.
    drained
        The subscriptions that have read and acked it to its end.
    since
        When it became the head, in milliseconds since the epoch; 0 where an earlier version did not write it.
    is_lost
        Whether the group lost its disks with it: what a subscription had not read of it is missing there.
    """

    group: str
    epoch: int
    drained: tuple[str, ...] = ()
    since: int = 0
    is_lost: bool = False


class Gap(msgspec.Struct, frozen=True):
    """A segment that a person had removed from the chain before all subscriptions had read it.

    Attributes
    ----------
    before
        The first epoch that is not the segment's any more.
    drained
        The subscriptions that had read it to its end.
    """

    group: str
    epoch: int
    before: int
    drained: tuple[str, ...] = ()

    def holds(self, subscription: str, epoch: int) -> bool:
        """Whether a message of an epoch was in it that a subscription may not have read."""
        return self.epoch <= epoch < self.before and subscription not in self.drained


class Whereabouts(enum.Enum):
    """Location of a message that was accepted and that a subscription did not get."""

    QUEUED = "it is to be read, or what comes before it is"
    LOST = "its group lost its disks, or was removed from the chain"
    READ = "its group was read to its end: it was delivered just now, or is on no group"


class GroupStanding(Protocol):
    """State of a group (`bus.ports.broker_group.GroupStatus`)."""

    @property
    def is_whole(self) -> bool:
        """Whether every copy is up and in sync."""
        ...

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits on it."""
        ...


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The document of one destination.

    Attributes
    ----------
    epoch
        Raised with each new owner of a role and each new segment.
    producer
        Who alone may send to the destination, where one has asked for that: until it is released, by whatever has sent
        what was left of it, or by a person. No clock ends it, unless it was asked for with ``takeover_after``.
    send
        Groups that can take messages, the one that does first.
    consume
        Segments to be read, oldest first.
    floors
        By subscription the greatest epoch of which it was given a message: older ones come too late.
    marks
        By group the mark of its data (`bus.ports.broker_group.BrokerGroup.mark`), which is gone when its disks are.
    gaps
        Segments removed from ``consume`` unread, the newest last; their number is limited.
    """

    epoch: int = 0
    sender: Lease = Lease()
    reader: Lease = Lease()
    producer: Lease = Lease()
    send: tuple[str, ...] = ()
    consume: tuple[Segment, ...] = ()
    floors: dict[str, int] = {}
    marks: dict[str, str] = {}
    gaps: tuple[Gap, ...] = ()

    @property
    def current(self) -> Segment | None:
        """The segment that takes messages."""
        last = self.consume[-1] if self.consume else None
        return last if last is not None and self.send[:1] == (last.group,) and not last.is_lost else None

    @property
    def write_epoch(self) -> int:
        """The epoch of the messages that the sender writes now.

        Subscriptions were given messages of greater ones only when the chain was put back from a backup: nothing would
        ever be in time then.
        """
        current = self.current
        return max(self.sender.epoch, current.epoch if current is not None else 0, *self.floors.values())

    @property
    def admits(self) -> int:
        """The producer's epoch of messages that may be sent now; 0, that of plain ones, while no producer is alone."""
        return self.producer.epoch if self.producer.owner else 0

    def lease(self, role: Role) -> Lease:
        """Return the lease of a role."""
        return self.sender if role is Role.SENDER else self.reader

    def holds(self, group: str) -> bool:
        """Whether a group still has messages to read."""
        return any(segment.group == group and not segment.is_lost for segment in self.consume)

    def has_lost(self, segment: Segment) -> bool:
        """Whether the group of a segment lost its disks with it."""
        return any(one.is_lost and (one.group, one.epoch) == (segment.group, segment.epoch) for one in self.consume)

    def next_for(self, subscription: str) -> Segment | None:
        """Return the segment that a subscription reads: the first that it has not drained."""
        return next((segment for segment in self.consume if subscription not in segment.drained), None)

    def after(self, segment: Segment) -> Segment | None:
        """Return the segment that follows one; None for the last."""
        return next((one for one in self.consume if one.epoch > segment.epoch), None)

    def whereabouts(self, subscription: str, epoch: int) -> Whereabouts:
        """Return where a message of an epoch is that a subscription did not get."""
        if any(gap.holds(subscription, epoch) for gap in self.gaps):
            return Whereabouts.LOST
        found = next((one for one in reversed(self.consume) if one.epoch <= epoch), None)
        if found is None or subscription in found.drained:
            return Whereabouts.READ
        is_next = found is self.next_for(subscription)
        return Whereabouts.LOST if is_next and found.is_lost else Whereabouts.QUEUED

    def floor(self, subscription: str, segment: Segment) -> int:
        """Return the least epoch that a subscription is given from a segment."""
        return max(segment.epoch, self.floors.get(subscription, 0))


def first_chain(now: int) -> Chain:
    """Return the chain of a destination that has none.

    Its epoch is a time (milliseconds since the epoch), so that it is greater than any of a chain that was lost.
    """
    return Chain(epoch=now)


def _replace(chain: Chain, **changes: object) -> Chain:
    return msgspec.structs.replace(chain, **changes)


def taken(chain: Chain, role: Role, owner: str, url: str, takeover_after: float) -> Chain:
    """Return the chain with another owner of a role."""
    lease = Lease(owner, url, chain.epoch + 1, takeover_after=takeover_after)
    return _replace(chain, epoch=chain.epoch + 1, **{role: lease})


def renewed(chain: Chain, role: Role, takeover_after: float) -> Chain:
    """Return the chain with a sign of life of a role's owner, and after how long others may take over.

    A process of an earlier version drops the latter whenever it writes the chain.
    """
    lease = chain.lease(role)
    return _replace(chain, **{role: msgspec.structs.replace(lease, beat=lease.beat + 1, takeover_after=takeover_after)})


def vacated(chain: Chain, role: Role) -> Chain:
    """Return the chain without an owner of a role, which has ended all its work."""
    return _replace(chain, **{role: Lease(epoch=chain.lease(role).epoch)})


def produced_by(chain: Chain, owner: str, url: str = "", takeover_after: float = 0.0) -> Chain:
    """Return the chain with another producer, or with none; messages of the earlier one are refused permanently."""
    lease = Lease(owner, url, chain.epoch + 1, takeover_after=takeover_after)
    return _replace(chain, epoch=chain.epoch + 1, producer=lease)


def with_takeover(chain: Chain, takeover_after: float) -> Chain:
    """Return the chain whose producer keeps its lease, with another time after which others may take over."""
    return _replace(chain, producer=msgspec.structs.replace(chain.producer, takeover_after=takeover_after))


def without(chain: Chain, groups: Collection[str]) -> Chain:
    """Return the chain with nothing sent to some groups, which failed or are not configured any more."""
    return _replace(chain, send=tuple(group for group in chain.send if group not in groups))


def joined(chain: Chain, standings: Mapping[str, GroupStanding], *, leftovers: bool = False) -> Chain:
    """Return the chain with the groups that may take messages behind those that already may: whole and empty ones.

    One that still has something to be read would have its old messages read after newer ones of another group. With
    ``leftovers`` also those that hold messages not to be read there any more: these are of an older epoch, come too
    late, and so are sent again.
    """
    found = [
        group
        for group, standing in standings.items()
        if standing.is_whole and (standing.is_empty or leftovers) and group not in chain.send and not chain.holds(group)
    ]
    return _replace(chain, send=(*chain.send, *found))


def with_current(chain: Chain, now: int) -> Chain:
    """Return the chain with a segment for the head of ``send``, which must be there before it is written to.

    ``now`` is in milliseconds since the epoch.
    """
    if not chain.send or chain.current is not None:
        return chain
    epoch = chain.epoch + 1
    return _replace(chain, epoch=epoch, consume=(*chain.consume, Segment(chain.send[0], epoch, since=now)))


def reopened(chain: Chain, now: int) -> Chain:
    """Return the chain with messages taken by the group that took them last, behind what it still has.

    Messages that it did not confirm may still land behind them, with an older epoch: then they come too late.
    """
    epoch, group = chain.epoch + 1, chain.consume[-1].group
    return _replace(chain, epoch=epoch, send=(group,), consume=(*chain.consume, Segment(group, epoch, since=now)))


def marked(chain: Chain, group: str, mark: str) -> Chain:
    """Return the chain with the mark that the data of a group has."""
    return _replace(chain, marks=chain.marks | {group: mark})


def lost(chain: Chain, group: str) -> Chain:
    """Return the chain with the messages of a group marked as lost: its data does not have its mark any more.

    The group takes messages again like a new one, once it is whole: its queues have to be created first.
    """

    def told(one: Segment) -> Segment:
        return msgspec.structs.replace(one, is_lost=True) if one.group == group else one

    marks = {name: mark for name, mark in chain.marks.items() if name != group}
    return _replace(without(chain, (group,)), marks=marks, consume=tuple(told(one) for one in chain.consume))


def drained(chain: Chain, segment: Segment, subscription: str) -> Chain:
    """Return the chain with a segment read to its end by a subscription; nothing is written to it any more."""

    def marked(one: Segment) -> Segment:
        is_it = one.epoch == segment.epoch and one.group == segment.group and subscription not in one.drained
        return msgspec.structs.replace(one, drained=(*one.drained, subscription)) if is_it else one

    return _replace(chain, consume=tuple(marked(one) for one in chain.consume))


def trimmed(chain: Chain, subscriptions: Iterable[str]) -> Chain:
    """Return the chain without the segments that all subscriptions have drained."""
    names, consume = set(subscriptions), chain.consume
    while consume and consume[0] is not chain.current and names <= set(consume[0].drained):
        consume = consume[1:]
    return _replace(chain, consume=consume)


def floored(chain: Chain, subscription: str, epoch: int) -> Chain:
    """Return the chain with a subscription given a message of an epoch, before it is given that.

    Whatever comes later has a greater one, also when the chain was put back from a backup that knew less.
    """
    floors = chain.floors | {subscription: max(epoch, chain.floors.get(subscription, 0))}
    return _replace(chain, epoch=max(epoch, chain.epoch), floors=floors)


def ended(chain: Chain) -> Chain:
    """Return the chain of a destination that was removed: a new destination with its code begins empty."""
    return Chain(epoch=chain.epoch + 1, sender=chain.sender, reader=chain.reader)


def abandoned(chain: Chain, group: str) -> Chain:
    """Return the chain without the messages that a group still has, or lost: a person has decided not to wait for them.

    Of a group that lost messages only those are removed. If a group comes back that had lost nothing, its messages are
    of an older epoch, and are sent again behind all others.
    """
    gone = [one for one in chain.consume if one.group == group and one is not chain.current]
    gone = [one for one in gone if one.is_lost] or gone
    gaps = [Gap(group, one.epoch, _epoch_after(chain, one), one.drained) for one in gone]
    consume = tuple(one for one in chain.consume if one not in gone)
    return _replace(chain, consume=consume, gaps=(*chain.gaps, *gaps)[-MOST_GAPS:])


def _epoch_after(chain: Chain, segment: Segment) -> int:
    following = chain.after(segment)
    return following.epoch if following is not None else chain.epoch + 1
