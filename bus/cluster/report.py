"""The report of a process on request: too large, or changing too fast, for its document."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from bus.cluster.member import Member
from bus.cluster.members import Members
from bus.cluster.peers import PREFIX, Peers
from bus.domain.health.vitals import BreakerFigures, Orphan, ProducerFigures, WorkerFigures
from bus.errors import PeerUnavailable
from bus.localized_text import AnyText, localized

REPORT: Final = f"{PREFIX}/report"
_PATIENCE: Final = 2.0


class Lane(msgspec.Struct, frozen=True, array_like=True):
    """Backlog of one consumer in a stream of a local queue; ``oldest`` (ms) is when its oldest record was made."""

    spool: str
    lane: str
    consumer: str
    records: int
    oldest: int | None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Present state of one process.

    Attributes
    ----------
    member
        Its document for all processes, as of now.
    lanes
        Streams of its local queues in which something waits.
    breakers
        All that are not closed, by ``destination/subscription``.
    swept
        Of a sweeper, the directories below which it looks for ``orphans``.
    producers
        Of a receiver, those that reported to it.
    """

    member: Member
    lanes: list[Lane] = []
    workers: list[WorkerFigures] = msgspec.field(default_factory=list, name="couriers")
    breakers: dict[str, BreakerFigures] = {}
    orphans: list[Orphan] = []
    swept: list[str] = []
    producers: list[ProducerFigures] = []


class Answer(NamedTuple):
    """Answer of a process: its report, or why there is none.

    ``member`` is its last document; ``seen`` is how many seconds ago that was written.
    """

    member: Member
    seen: float
    report: Report | None
    trouble: AnyText


_reports: Final = msgspec.msgpack.Decoder(Report)


class Reports:
    """Asks the processes that are alive, this one by a call and the others by HTTP, all at once."""

    def __init__(self, members: Members, peers: Peers, own: Callable[[], Awaitable[Report]]) -> None:
        self._members = members
        self._peers = peers
        self._own = own

    async def of_all(self) -> list[Answer]:
        """Return the answers of all processes, this one first; of one that does not answer in 2 s, the reason."""
        return await self.of(self._members.all)

    async def of(self, members: Sequence[Member]) -> list[Answer]:
        """Return the answers of these processes, in their order."""
        return list(await asyncio.gather(*(self._ask(member) for member in members)))

    async def _ask(self, member: Member) -> Answer:
        if member.owner == self._members.me.owner:
            report = await self._own()
            return Answer(report.member, 0.0, report, "")
        seen = self._members.seen(member.owner)
        try:
            async with asyncio.timeout(_PATIENCE):
                found = _reports.decode(await self._peers.ask(member, REPORT))
        except TimeoutError:
            return Answer(
                member,
                seen,
                None,
                localized("{url} does not answer within {seconds} s", url=member.url, seconds=f"{_PATIENCE:g}"),
            )
        except PeerUnavailable as error:
            return Answer(member, seen, None, error.said)
        except msgspec.DecodeError as error:
            return Answer(
                member, seen, None, localized("{url} is of another version: {error}", url=member.url, error=str(error))
            )
        return Answer(found.member, seen, found, "")
