"""The backlog in the local queues of all processes, with its age."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bus.cluster.member import HeldMessages
from bus.cluster.members import Members
from bus.domain.health.vitals import SpoolFigures
from bus.domain.lanes import STORE, destination_of
from bus.ports.spool import ConsumerStats, Spool
from bus.ports.transport import Lag, queue_lags

_NOTHING: Final = HeldMessages(0, None)


class Figures(NamedTuple):
    """One process's part; see ``Member`` for the fields."""

    unpublished: dict[str, int]
    unseen: dict[str, int]
    held: dict[str, HeldMessages]
    spools: dict[str, SpoolFigures]


def figures(spools: Mapping[str, Spool], carried: Mapping[tuple[str, str], Lag]) -> Figures:
    """Return the contents and the backlog of this process's spools, and what its workers have of other transports."""
    waiting = {name: spool.waiting() for name, spool in spools.items()}
    held = {f"{code}/{name}": HeldMessages(*lag) for (code, name), lag in carried.items()}
    for (code, name), lag in queue_lags(waiting.get("direct", ())).items():
        lane = f"{code}/{name}"
        held[lane] = _sum(held.get(lane, _NOTHING), HeldMessages(lag.records, lag.oldest, lag.records))
    return Figures(
        unpublished=_oldest(waiting.get("receiver", ()), "publish"),
        unseen=_oldest(waiting.get("outcomes", ()), "store"),
        held=held,
        spools={name: _figures(spools[name], found) for name, found in waiting.items()},
    )


def _figures(spool: Spool, waiting: Iterable[ConsumerStats]) -> SpoolFigures:
    """Return the contents of a spool, over all its streams."""
    oldest = min((found.oldest for found in waiting if found.oldest is not None), default=None)
    return SpoolFigures(*spool.totals(), oldest)


def unstored(spools: Mapping[str, Spool]) -> int | None:
    """Return since when (ms) a message or an outcome of this process waits for the store; None for never."""
    consumers = {"receiver": "store", "direct": STORE, "outcomes": "store"}
    waiting = [(spools[name].waiting(), consumer) for name, consumer in consumers.items() if name in spools]
    return min((oldest for found, consumer in waiting for oldest in _oldest(found, consumer).values()), default=None)


def holds_any(spools: Mapping[str, Spool], code: str) -> bool:
    """Whether queues have messages of a destination that are not delivered, or outcomes that the store lacks."""
    consumers = {"receiver": frozenset({"store"}), "direct": frozenset({STORE}), "outcomes": frozenset[str]()}
    return any(
        destination_of(found.lane) == code and found.consumer not in ignored
        for name, ignored in consumers.items()
        if name in spools
        for found in spools[name].waiting()
    )


class ClusterBacklog:
    """Backlog of all processes: this one's at present, the others' as reported within the last seconds."""

    def __init__(self, members: Members, spools: Mapping[str, Spool]) -> None:
        self._members = members
        self._spools = spools

    def unpublished(self) -> dict[str, int]:
        """Return since when (ms) each destination has messages that wait to be published."""
        own = self._oldest("receiver", "publish")
        return _earliest([own, *(member.unpublished for member in self._members.others)])

    def unseen(self) -> dict[str, int]:
        """Return since when (ms) each destination has outcomes that the store has not."""
        own = self._oldest("outcomes", "store")
        return _earliest([own, *(member.unseen for member in self._members.others)])

    def unseen_of_earlier_lives(self) -> set[str]:
        """Return where outcomes from before a dispatcher's restart wait for the store."""
        own = self._oldest("outcomes", "store"), self._members.me.since
        others = [(member.unseen, member.since) for member in self._members.others]
        return {code for unseen, since in (own, *others) for code, oldest in unseen.items() if oldest < since}

    def held_elsewhere(self, destination: str, subscription: str) -> list[int]:
        """Return since when (ms) other processes hold something for a subscription."""
        lane = f"{destination}/{subscription}"
        found = (member.held.get(lane) for member in self._members.others)
        return [held.oldest for held in found if held is not None and held.oldest is not None]

    @property
    def lead(self) -> int:
        """By how much (ms) these times may be ahead of this process's clock, since another's is."""
        return self._members.lead()

    @property
    def too_slow(self) -> int:
        """By how much (ms) this process's clock is behind most others'."""
        return self._members.too_slow

    @property
    def too_fast(self) -> int:
        """By how much (ms) this process's clock is ahead of the others'."""
        return self._members.too_fast

    def _oldest(self, spool: str, consumer: str) -> dict[str, int]:
        found = self._spools.get(spool)
        return _oldest(found.waiting() if found is not None else (), consumer)


def _sum(one: HeldMessages, other: HeldMessages) -> HeldMessages:
    times = [held.oldest for held in (one, other) if held.oldest is not None]
    return HeldMessages(one.records + other.records, min(times, default=None), one.queued + other.queued)


def _oldest(waiting: Iterable[ConsumerStats], consumer: str) -> dict[str, int]:
    return _earliest(
        {destination_of(found.lane): found.oldest}
        for found in waiting
        if found.consumer == consumer and found.oldest is not None
    )


def _earliest(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for code, oldest in part.items():
            found[code] = min(oldest, found.get(code, oldest))
    return found
