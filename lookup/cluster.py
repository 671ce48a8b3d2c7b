"""One cluster: its nsqlookupds, which of them are well, and how they are asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from urllib.parse import quote

from bus.domain.routing.answers import Answer, Unreadable, opened, read_answer, union
from bus.domain.routing.listlookup import PATH, LookupAddresses, read_listed
from bus.domain.routing.rooms import Access
from bus.localized_text import AnyText, joined, localized
from bus.ports.clock import Clock
from bus.transports.backoff import Backoff
from lookup.nsqlookupd import LookupAnswer, LookupUnavailable, NsqlookupdClient, StreamedAnswer

Found = TypeVar("Found")

_log = logging.getLogger(__name__)
ANSWER_WITHIN: Final = 0.75
"""Seconds that one nsqlookupd has for an answer; two of them may be asked one after the other."""
_TRIES: Final = 2
_LISTED_EVERY: Final = 10.0
_LOOK_EVERY: Final = 0.5
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 15.0
_REGISTERED_WITHIN: Final = 60.0
"""Seconds within which nsqds that live have registered again; they try every 15."""
_MOST_ASKED: Final = 64
"""Questions that a cluster is asked at the same time; who waits for a place longer than for an answer gets none."""
_CHANGED_WITHIN: Final = 15.0
_OK: Final = 200
_NOT_FOUND: Final = 404


class _Server:
    """One nsqlookupd: whether it is asked, and when one that failed is tried again."""

    def __init__(self, address: str, noise: Callable[[], float]) -> None:
        self.address = address
        self.trouble: AnyText = ""
        self.doubt: AnyText = ""
        self.settled_at = float("-inf")
        self.tried_from = 0.0
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, noise)

    def fail(self, trouble: AnyText, now: float) -> None:
        """Ask it no more for a while, which grows as long as it answers probes and no question."""
        if not self.trouble:
            _log.warning("an nsqlookupd is left out: %s", trouble)
        self.trouble = trouble
        self.tried_from = now + self._backoff.fail()

    def stay_away(self, trouble: AnyText, now: float) -> None:
        """Note a probe without an answer."""
        self.trouble = trouble
        self.tried_from = now + _FIRST_PAUSE

    def answer_badly(self, said: AnyText) -> None:
        """Note that it answered one question as no nsqlookupd does, or failed at it; it may answer others well."""
        self.doubt = said

    def answer(self) -> None:
        """Note an answer to a client's question."""
        self.trouble = self.doubt = ""
        self._backoff.succeed()

    def revive(self) -> None:
        """Include it in questions again: it answers a probe, and may still be too slow for questions."""
        if self.trouble:
            _log.info("the nsqlookupd %s answers again", self.address)
        self.trouble = ""


class Cluster:
    """The nsqlookupds of one cluster.

    Those of the fork have the same data, so one of them is asked, each in its turn; they list the members themselves.
    Stock ones each have their own registrations, so all are asked, and their answers are merged.
    An nsqlookupd that does not answer in time is left out until it answers a probe.

    Attributes
    ----------
    is_fork
        Whether it is a cluster of the fork, as far as is known; None while none has answered.
    """

    def __init__(
        self, name: str, addresses: Sequence[str], client: NsqlookupdClient, clock: Clock, noise: Callable[[], float]
    ) -> None:
        self.name = name
        self.addresses = tuple(addresses)
        self.is_fork: bool | None = None
        self._client = client
        self._clock = clock
        self._noise = noise
        self._servers = {address: _Server(address, noise) for address in addresses}
        self._leader = ""
        self._turn = 0
        self._listed_at = float("-inf")
        self._asking = asyncio.Semaphore(_MOST_ASKED)

    @property
    def is_up(self) -> bool:
        """Whether one of its nsqlookupds answers."""
        return any(not server.trouble for server in self._servers.values())

    @property
    def trouble(self) -> AnyText:
        """The reason why it is left out of answers; empty while it is not."""
        if not self.is_up:
            return joined(server.trouble for server in self._servers.values())
        doubts = [server.doubt for server in self._servers.values() if not server.trouble]
        return joined(doubts) if all(doubts) else ""

    @property
    def troubles(self) -> dict[str, AnyText]:
        """The problem of each of its nsqlookupds; an empty text for none."""
        return {server.address: server.trouble for server in self._servers.values()}

    async def run(self) -> None:
        """Find its nsqlookupds, and try those again that failed, until cancelled."""
        while True:
            await self._look()
            await self._clock.sleep(_LOOK_EVERY)

    async def lookup(self, topic: str, access: Access, *, with_meta: bool, via: str = "") -> Answer:
        """Return its answer about a topic; a missing topic is an answer, with the refusal.

        Raises
        ------
        Away
            None of its nsqlookupds gives an answer that can be read.
        """
        meta = "&metainfo=true" if with_meta else ""
        target = f"/lookup?topic={quote(topic, safe='')}&access={access}{meta}"
        if self.is_fork:
            return await self._one(target, via)
        return union(await self._all(target, via))

    async def ask(self, target: str, via: str = "") -> list[LookupAnswer]:
        """Return the answers to a question that changes nothing; raises ``LookupUnavailable`` without any answer.

        One answer of the fork, those of all that answer of stock NSQ.
        """
        if self.is_fork:
            return [await self._in_turn(target, via)]
        return await self._everybody(target, via)

    async def change(self, method: str, target: str, via: str, body: bytes = b"") -> LookupAnswer:
        """Have a change made: by the leader of the fork, by every stock nsqlookupd, as these exchange no data.

        Returns the first refusal, or else an answer.

        Raises
        ------
        Away
            Of the fork the leader does not answer, or is not known; of stock NSQ one does not; nothing is known of the
            cluster yet. The text names those that have made the change.
        """
        if self.is_fork is not False:
            await self._list(list(self._servers.values()))
        if self.is_fork is None:
            raise LookupUnavailable(
                self.trouble or localized("cluster {name} does not report its nsqlookupds", name=self.name)
            )
        if self.is_fork and not self._leader:
            raise LookupUnavailable(localized("cluster {name} reports no leader of its nsqlookupds", name=self.name))
        addresses = [self._leader] if self.is_fork else list(self._servers)
        found = await all_of(
            [
                _attempted(self._client.ask(one, target, within=_CHANGED_WITHIN, method=method, via=via, body=body))
                for one in addresses
            ]
        )
        return _whole_change(addresses, found)

    @asynccontextmanager
    async def passing(self, method: str, target: str, headers: Mapping[bytes, bytes]) -> AsyncIterator[StreamedAnswer]:
        """Pass a request on to one of its nsqlookupds; raises ``LookupUnavailable`` when that one does not answer."""
        server = self._up()[0]
        try:
            async with self._client.passing(server.address, method, target, headers, _TRIES * ANSWER_WITHIN) as passed:
                yield passed
        except LookupUnavailable as error:
            if not error.is_here:
                server.fail(error.said, self._clock.monotonic())
            raise

    async def _one(self, target: str, via: str) -> Answer:
        """Return the first answer that can be read, of those whose turn it is."""
        why: AnyText = ""
        for server in self._up()[:_TRIES]:
            try:
                return await self._read(server, target, via)
            except LookupUnavailable as error:
                why = error.said
        raise LookupUnavailable(why)

    async def _all(self, target: str, via: str) -> list[Answer]:
        """Return the answers that can be read."""
        return _good(await all_of([_attempted(self._read(server, target, via)) for server in self._up()]))

    async def _read(self, server: _Server, target: str, via: str) -> Answer:
        answered = await self._ask(server, target, via)
        try:
            return _answer_of(answered)
        except Unreadable as error:
            said = localized(
                "http://{address} answers as no nsqlookupd does: {error}", address=server.address, error=str(error)
            )
            server.answer_badly(said)
            raise LookupUnavailable(said, is_here=True) from error

    async def _in_turn(self, target: str, via: str) -> LookupAnswer:
        why: AnyText = ""
        for server in self._up()[:_TRIES]:
            try:
                return await self._ask(server, target, via)
            except LookupUnavailable as error:
                why = error.said
        raise LookupUnavailable(why)

    async def _everybody(self, target: str, via: str) -> list[LookupAnswer]:
        return _good(await all_of([_attempted(self._ask(server, target, via)) for server in self._up()]))

    async def _ask(self, server: _Server, target: str, via: str) -> LookupAnswer:
        await self._place()
        try:
            answered = await self._client.ask(server.address, target, within=ANSWER_WITHIN, via=via)
        except LookupUnavailable as error:
            if error.is_here:
                server.answer_badly(error.said)
            else:
                server.fail(error.said, self._clock.monotonic())
            raise
        finally:
            self._asking.release()
        server.answer()
        return answered

    async def _place(self) -> None:
        """Wait for one of the places of those who ask at the same time."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                await self._asking.acquire()
        except TimeoutError:
            raise LookupUnavailable(
                localized("too much is asked of {name} at this moment", name=self.name), is_here=True
            ) from None

    @property
    def is_settling(self) -> bool:
        """Whether its data may be incomplete: stock nsqlookupds that were restarted have no registrations at first."""
        if self.is_fork:
            return False
        now = self._clock.monotonic()
        up = [server for server in self._servers.values() if not server.trouble]
        return bool(up) and all(
            now < max(server.settled_at, self._client.closed_at(server.address) + _REGISTERED_WITHIN) for server in up
        )

    def _up(self) -> list[_Server]:
        """Return those that are well, from the next one in turn on; raises ``LookupUnavailable`` when none is."""
        servers = [server for server in self._servers.values() if not server.trouble]
        if not servers:
            raise LookupUnavailable(self.trouble)
        self._turn += 1
        first = self._turn % len(servers)
        return servers[first:] + servers[:first]

    async def _look(self) -> None:
        now = self._clock.monotonic()
        ill = [server for server in self._servers.values() if server.trouble and server.tried_from <= now]
        is_due = now - self._listed_at >= _LISTED_EVERY
        # Those that answer, so that a connection to each is there, whose end shows a restart.
        well = [server for server in self._servers.values() if is_due and not server.trouble]
        await asyncio.gather(*(self._probe(server) for server in (*ill, *well)))
        well = [server for server in self._servers.values() if not server.trouble]
        if well and is_due:
            self._listed_at = now
            await self._list(well)

    async def _probe(self, server: _Server) -> None:
        try:
            await self._ping(server)
        except LookupUnavailable as error:
            server.stay_away(error.said, self._clock.monotonic())
            return
        if server.trouble:
            server.settled_at = self._clock.monotonic() + _REGISTERED_WITHIN
            server.revive()

    async def answers(self) -> bool:
        """Whether one of its nsqlookupds answers now, also of those that are left out."""
        found = await asyncio.gather(*(_attempted(self._ping(server)) for server in self._servers.values()))
        return not all(isinstance(one, LookupUnavailable) for one in found)

    async def _ping(self, server: _Server) -> None:
        answered = await self._client.ask(server.address, "/ping", within=ANSWER_WITHIN)
        if answered.status != _OK:  # another service uses the address
            raise LookupUnavailable(
                localized("http://{address}/ping gives HTTP {status}", address=server.address, status=answered.status)
            )

    async def _list(self, servers: Sequence[_Server]) -> None:
        """Add the nsqlookupds that the first one to answer lists; stock NSQ has no such path."""
        for server in servers:
            try:
                answered = await self._client.ask(server.address, PATH, within=ANSWER_WITHIN)
                listed = read_listed(answered.content) if answered.status == _OK else None
            except (LookupUnavailable, Unreadable):
                continue
            if answered.status not in (_OK, _NOT_FOUND):
                continue
            self.is_fork = listed is not None
            if listed is not None:
                self._take(listed)
            return

    def _take(self, listed: LookupAddresses) -> None:
        self._leader = listed.leader
        wanted = dict.fromkeys((*self.addresses, *listed.addresses))
        for address in wanted:
            if address not in self._servers:
                self._servers[address] = _Server(address, self._noise)
        for address in self._servers.keys() - wanted:
            del self._servers[address]


async def all_of(asking: Sequence[Coroutine[Any, Any, Found]]) -> list[Found]:
    """Return the results of several awaitables at once; one alone costs no task."""
    return [await asking[0]] if len(asking) == 1 else await asyncio.gather(*asking)


async def _attempted(asking: Coroutine[Any, Any, Found]) -> Found | LookupUnavailable:
    try:
        return await asking
    except LookupUnavailable as away:
        return away


def _good(found: Sequence[Found | LookupUnavailable]) -> list[Found]:
    """Return the answers among them; raises ``LookupUnavailable`` when there is none."""
    good = [answer for answer in found if not isinstance(answer, LookupUnavailable)]
    if not good:
        raise next(away for away in found if isinstance(away, LookupUnavailable))
    return good


def _whole_change(addresses: Sequence[str], found: Sequence[LookupAnswer | LookupUnavailable]) -> LookupAnswer:
    """Return the result of a change; raises ``LookupUnavailable`` unless all have answered."""
    done = [address for address, one in zip(addresses, found, strict=True) if not isinstance(one, LookupUnavailable)]
    answers = [one for one in found if not isinstance(one, LookupUnavailable)]
    failed = next((one for one in found if isinstance(one, LookupUnavailable)), None)
    if failed is not None:
        raise LookupUnavailable(
            localized(
                "{why}; it may have made the change; answered by: {names}",
                why=failed.said,
                names=", ".join(done) or localized("nobody"),
            )
        )
    return next((answer for answer in answers if answer.status != _OK), answers[0])


def _answer_of(answered: LookupAnswer) -> Answer:
    """Return the answer to a lookup; raises ``Unreadable``."""
    if answered.status == _NOT_FOUND:
        return Answer(refusal=message_of(answered))
    if answered.status != _OK:
        raise Unreadable(f"HTTP {answered.status}: {answered.content[:100]!r}")
    return read_answer(answered.content)


def message_of(answered: LookupAnswer) -> str:
    """Return why something is refused, in the words of the nsqlookupd; raises ``Unreadable`` when it says nothing."""
    message = opened(answered.content).get("message")
    if not isinstance(message, str) or not message:
        raise Unreadable(f"HTTP {answered.status} without nsqlookupd's message")
    return message
