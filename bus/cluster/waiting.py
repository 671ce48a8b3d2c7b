"""What waits in the local queues of every process, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from bus.cluster.member import Held
from bus.cluster.members import Members
from bus.domain.lanes import destination_of
from bus.ports.spool import Spool
from bus.ports.transport import Lag

_NOTHING: Final = Held(0, None)


class Figures(NamedTuple):
    """One process's part; see ``Member`` for the fields."""

    unpublished: dict[str, int]
    unseen: dict[str, int]
    held: dict[str, Held]


def figures(spools: Mapping[str, Spool], carried: Mapping[tuple[str, str], Lag]) -> Figures:
    """Return what waits in this process's spools, and what its couriers have of other roads."""
    direct = spools.get("direct")
    held = {f"{code}/{name}": Held(*lag) for (code, name), lag in carried.items()}
    for found in direct.stats().consumers if direct is not None else ():
        lane = f"{found.lane}/{found.consumer}"
        held[lane] = _sum(held.get(lane, _NOTHING), Held(found.records, found.oldest))
    return Figures(
        unpublished=_oldest(spools.get("receiver"), "publish"),
        unseen=_oldest(spools.get("outcomes"), "store"),
        held=held,
    )


def unstored(spools: Mapping[str, Spool]) -> int | None:
    """Return since when (ms) a message or an outcome of this process waits for the store; None for never."""
    waiting = [*_oldest(spools.get("receiver"), "store").values(), *_oldest(spools.get("outcomes"), "store").values()]
    return min(waiting, default=None)


class Waiting:
    """The figures of all processes: this one's of now, the others' as they told within the last seconds."""

    def __init__(self, members: Members, spools: Mapping[str, Spool]) -> None:
        self._members = members
        self._spools = spools

    def unpublished(self) -> dict[str, int]:
        """Return since when (ms) each destination has messages that wait to be published."""
        own = _oldest(self._spools.get("receiver"), "publish")
        return _earliest([own, *(member.unpublished for member in self._members.others)])

    def unseen(self) -> dict[str, int]:
        """Return since when (ms) each destination has outcomes that the store has not."""
        own = _oldest(self._spools.get("outcomes"), "store")
        return _earliest([own, *(member.unseen for member in self._members.others)])

    def unseen_of_earlier_lives(self) -> set[str]:
        """Return where outcomes from before a dispatcher's restart wait for the store."""
        own = _oldest(self._spools.get("outcomes"), "store"), self._members.me.started_at
        others = [(member.unseen, member.started_at) for member in self._members.others]
        return {code for unseen, since in (own, *others) for code, oldest in unseen.items() if oldest < since}

    def held_elsewhere(self, destination: str, subscription: str) -> list[int]:
        """Return since when (ms) other processes hold something for a subscription."""
        lane = f"{destination}/{subscription}"
        found = (member.held.get(lane) for member in self._members.others)
        return [held.oldest for held in found if held is not None and held.oldest is not None]


def _sum(one: Held, other: Held) -> Held:
    times = [held.oldest for held in (one, other) if held.oldest is not None]
    return Held(one.records + other.records, min(times, default=None))


def _oldest(spool: Spool | None, consumer: str) -> dict[str, int]:
    stats = spool.stats().consumers if spool is not None else ()
    return _earliest(
        {destination_of(found.lane): found.oldest}
        for found in stats
        if found.consumer == consumer and found.oldest is not None
    )


def _earliest(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in parts:
        for code, oldest in part.items():
            found[code] = min(oldest, found.get(code, oldest))
    return found
