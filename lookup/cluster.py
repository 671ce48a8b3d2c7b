"""One cluster: its nsqlookupds, which of them are well, and how they are asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from urllib.parse import quote

from bus.domain.routing.answers import Answer, Unreadable, opened, read_answer, union
from bus.domain.routing.rooms import Access
from bus.ports.clock import Clock
from bus.sentences import Said, joined, sentence
from bus.transports.backoff import Backoff
from lookup.listlookup import PATH, Listed, read_listed
from lookup.nsqlookupd import Answered, Away, NsqlookupdClient, Passed

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
_OK: Final = 200
_NOT_FOUND: Final = 404


class _Server:
    """One nsqlookupd: whether it is asked, and when one that failed is tried again."""

    def __init__(self, address: str, noise: Callable[[], float]) -> None:
        self.address = address
        self.trouble: Said = ""
        self.tried_from = 0.0
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, noise)

    def fail(self, trouble: Said, now: float) -> None:
        """Ask it no more for a while, which grows as long as it answers probes and no question."""
        if not self.trouble:
            _log.warning("an nsqlookupd is left out: %s", trouble)
        self.trouble = trouble
        self.tried_from = now + self._backoff.fail()

    def stay_away(self, trouble: Said, now: float) -> None:
        """Note a probe without an answer."""
        self.trouble = trouble
        self.tried_from = now + _FIRST_PAUSE

    def answer(self) -> None:
        """Note an answer to a client's question."""
        self.trouble = ""
        self._backoff.succeed()

    def revive(self) -> None:
        """Have it asked again: it answers a probe, and may still be too slow for questions."""
        if self.trouble:
            _log.info("the nsqlookupd %s answers again", self.address)
        self.trouble = ""


class Cluster:
    """The nsqlookupds of one cluster.

    Those of the fork know the same, so one of them is asked, each in its turn; which there are they tell themselves.
    Stock ones each know what has registered with them, so all are asked, and an answer is what they know together.
    Whoever does not answer in time is left out until it answers a probe.

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
        self._settled_at = float("-inf")

    @property
    def is_up(self) -> bool:
        """Whether one of its nsqlookupds answers."""
        return any(not server.trouble for server in self._servers.values())

    @property
    def trouble(self) -> Said:
        """Why it is left out of answers; empty while it is not."""
        return "" if self.is_up else joined(server.trouble for server in self._servers.values())

    @property
    def troubles(self) -> dict[str, Said]:
        """What is wrong with each of its nsqlookupds; empty text for one that is well."""
        return {server.address: server.trouble for server in self._servers.values()}

    async def run(self) -> None:
        """Find its nsqlookupds, and try those again that failed, until cancelled."""
        while True:
            await self._look()
            await self._clock.sleep(_LOOK_EVERY)

    async def lookup(self, topic: str, access: Access, *, with_meta: bool, via: str = "") -> Answer:
        """Return what it says of a topic; one that is not there is an answer, with the refusal.

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

    async def ask(self, target: str, via: str = "") -> list[Answered]:
        """Return the answers to a question that changes nothing; raises ``Away`` when nobody answers.

        One answer of the fork, those of all that answer of stock NSQ.
        """
        if self.is_fork:
            return [await self._in_turn(target, via)]
        return await self._everybody(target, via)

    async def change(self, method: str, target: str, via: str) -> Answered:
        """Have a change made: by the leader of the fork, by every stock nsqlookupd, which know of one another nothing.

        Returns the first refusal, or else an answer.

        Raises
        ------
        Away
            Of the fork the leader does not answer, or is not known; of stock NSQ one does not: others may have made
            the change.
        """
        if self.is_fork:
            await self._list(list(self._servers.values()))
            if not self._leader:
                raise Away(sentence("cluster {name} tells no leader of its nsqlookupds", name=self.name))
            addresses = [self._leader]
        else:
            addresses = list(self._servers)
        answers = await asyncio.gather(
            *(self._client.ask(one, target, within=2 * ANSWER_WITHIN, method=method, via=via) for one in addresses)
        )
        return next((answer for answer in answers if answer.status != _OK), answers[0])

    @asynccontextmanager
    async def passing(
        self, method: str, target: str, headers: Mapping[bytes, bytes], body: AsyncIterator[bytes]
    ) -> AsyncIterator[Passed]:
        """Pass a request on to one of its nsqlookupds; raises ``Away`` when that one does not answer."""
        server = self._up()[0]
        try:
            async with self._client.passing(
                server.address, method, target, headers, body, _TRIES * ANSWER_WITHIN
            ) as passed:
                server.answer()
                yield passed
        except Away as error:
            server.fail(error.said, self._clock.monotonic())
            raise

    async def _one(self, target: str, via: str) -> Answer:
        """Return the first answer that can be read, of those whose turn it is."""
        why: Said = ""
        for server in self._up()[:_TRIES]:
            try:
                return await self._read(server, target, via)
            except Away as error:
                why = error.said
        raise Away(why)

    async def _all(self, target: str, via: str) -> list[Answer]:
        """Return the answers that can be read."""
        return _good(await all_of([_attempted(self._read(server, target, via)) for server in self._up()]))

    async def _read(self, server: _Server, target: str, via: str) -> Answer:
        answered = await self._ask(server, target, via)
        try:
            return _answer_of(answered)
        except Unreadable as error:
            said = sentence(
                "http://{address} answers as no nsqlookupd does: {error}", address=server.address, error=str(error)
            )
            server.fail(said, self._clock.monotonic())
            raise Away(said) from error

    async def _in_turn(self, target: str, via: str) -> Answered:
        why: Said = ""
        for server in self._up()[:_TRIES]:
            try:
                return await self._ask(server, target, via)
            except Away as error:
                why = error.said
        raise Away(why)

    async def _everybody(self, target: str, via: str) -> list[Answered]:
        return _good(await all_of([_attempted(self._ask(server, target, via)) for server in self._up()]))

    async def _ask(self, server: _Server, target: str, via: str) -> Answered:
        try:
            answered = await self._client.ask(server.address, target, within=ANSWER_WITHIN, via=via)
        except Away as error:
            server.fail(error.said, self._clock.monotonic())
            raise
        server.answer()
        return answered

    @property
    def is_settling(self) -> bool:
        """Whether it may know less than it did: stock nsqlookupds that were all away learn anew what there is."""
        return not self.is_fork and self._clock.monotonic() < self._settled_at

    def _up(self) -> list[_Server]:
        """Return those that are well, from the next one in turn on; raises ``Away`` when none is."""
        servers = [server for server in self._servers.values() if not server.trouble]
        if not servers:
            raise Away(self.trouble)
        self._turn += 1
        first = self._turn % len(servers)
        return servers[first:] + servers[:first]

    async def _look(self) -> None:
        now = self._clock.monotonic()
        ill = [server for server in self._servers.values() if server.trouble and server.tried_from <= now]
        await asyncio.gather(*(self._probe(server) for server in ill))
        well = [server for server in self._servers.values() if not server.trouble]
        if well and now - self._listed_at >= _LISTED_EVERY:
            self._listed_at = now
            await self._list(well)

    async def _probe(self, server: _Server) -> None:
        try:
            await self._client.ask(server.address, "/ping", within=ANSWER_WITHIN)
        except Away as error:
            server.stay_away(error.said, self._clock.monotonic())
        else:
            if not self.is_up:
                self._settled_at = self._clock.monotonic() + _REGISTERED_WITHIN
            server.revive()

    async def _list(self, servers: Sequence[_Server]) -> None:
        """Take in the nsqlookupds that the first one to answer knows; stock NSQ knows of none."""
        for server in servers:
            try:
                answered = await self._ask(server, PATH, "")
                listed = read_listed(answered.content) if answered.status == _OK else None
            except (Away, Unreadable):
                continue
            self.is_fork = listed is not None
            if listed is not None:
                self._take(listed)
            return

    def _take(self, listed: Listed) -> None:
        self._leader = listed.leader
        wanted = dict.fromkeys((*self.addresses, *listed.addresses))
        for address in wanted:
            if address not in self._servers:
                self._servers[address] = _Server(address, self._noise)
        for address in self._servers.keys() - wanted:
            del self._servers[address]


async def all_of(asking: Sequence[Coroutine[Any, Any, Found]]) -> list[Found]:
    """Return what several give at once; one alone costs no task."""
    return [await asking[0]] if len(asking) == 1 else await asyncio.gather(*asking)


async def _attempted(asking: Coroutine[Any, Any, Found]) -> Found | Away:
    try:
        return await asking
    except Away as away:
        return away


def _good(found: Sequence[Found | Away]) -> list[Found]:
    """Return the answers among them; raises ``Away`` when there is none."""
    good = [answer for answer in found if not isinstance(answer, Away)]
    if not good:
        raise next(away for away in found if isinstance(away, Away))
    return good


def _answer_of(answered: Answered) -> Answer:
    """Return the answer to a lookup; raises ``Unreadable``."""
    if answered.status == _NOT_FOUND:
        return Answer(refusal=_message(answered.content))
    if answered.status != _OK:
        raise Unreadable(f"HTTP {answered.status}: {answered.content[:100]!r}")
    return read_answer(answered.content)


def _message(content: bytes) -> str:
    """Return why a topic is not there, in the words of the nsqlookupd; raises ``Unreadable``."""
    found = opened(content)
    message = found.get("message")
    return message if isinstance(message, str) and message else "TOPIC_NOT_FOUND"
