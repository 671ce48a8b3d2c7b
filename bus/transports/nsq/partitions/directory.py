"""The nsqlookupds of a cluster of the fork: found by `/listlookup`, asked again, and asked last when they fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from bus.domain.routing.answers import Answer, union
from bus.domain.routing.listlookup import LookupAddresses
from bus.domain.routing.rooms import Access
from bus.errors import ConfigurationError
from bus.localized_text import AnyText, localized, text_of_error
from bus.ports.clock import Clock
from bus.transports.nsq.config import Address, NsqConfig, parse_lookupd
from bus.transports.nsq.errors import NOT_LEADER, ConnectionLost, ErrorFrame, NsqFault
from bus.transports.nsq.protocol.http import NsqHttp

_log = logging.getLogger(__name__)
_NO_SUCH_PATH: Final = frozenset({"NOT_FOUND", "HTTP 404"})  # of stock NSQ
_TRIES: Final = 2
_GRACE: Final = 0.5
_LAST_FOR: Final = 30.0

Found = TypeVar("Found")


class Directory:
    """Asks all nsqlookupds: those of the settings, and those that these list.

    One that does not answer is asked twice, and then only when no other one answers, for half a minute. Once one has
    answered, the others have half a second; their answers are united.

    Attributes
    ----------
    leader
        The one that makes topics; None where nsqlookupds are stock NSQ's, which list none.
    troubles
        What is wrong with those that were listed; empty text for one that is well.
    """

    def __init__(self, told: Sequence[Address], http: NsqHttp, clock: Clock) -> None:
        self._told = tuple(told)
        self._http = http
        self._clock = clock
        self._listed: tuple[Address, ...] = ()
        self._last: dict[Address, float] = {}
        self.leader: Address | None = None
        self.troubles: dict[Address, AnyText] = {}

    @property
    def has_partitions(self) -> bool:
        """Whether topics may have partitions: an nsqlookupd has listed nsqlookupds."""
        return bool(self._listed)

    async def discover(self) -> bool:
        """Ask for the list of nsqlookupds; return whether one answered. The old list stays while none does."""
        answers = await self._ask(tuple(dict.fromkeys((*self._told, *self._listed))), self._list)
        listed = [answer for answer in answers if answer.addresses]
        if listed:
            leaders = [_addresses(answer.leader) for answer in listed if answer.leader]
            self.leader = leaders[0][0] if leaders and leaders[0] else None
            self._listed = tuple(
                dict.fromkeys(one for answer in listed for text in answer.addresses for one in _addresses(text))
            )
            self.troubles = {one: self.troubles.get(one, "") for one in self._listed if one not in self._told}
        elif answers:
            self._listed, self.leader, self.troubles = (), None, {}
        return bool(answers)

    async def lookup(self, topic: str, access: Access) -> Answer | None:
        """Return the united answers on a topic, the leader's partitions first; None when no nsqlookupd answers."""
        first = [self.leader] if self.leader is not None else []
        everybody = tuple(dict.fromkeys([*first, *self._listed, *self._told]))
        answers = await self._ask(everybody, lambda address: self._http.lookup(address, topic, access))
        return union(answers) if answers else None

    async def create(self, topic: str, config: NsqConfig, *, is_ordered: bool) -> None:
        """Make a topic; an existing one is no error.

        Raises
        ------
        NsqFault
            It was not made, or that is uncertain.
        """
        await self._change(lambda leader: self._http.create_partitioned(leader, topic, config, is_ordered=is_ordered))

    async def register(self, topic: str, channel: str) -> None:
        """Have a topic take a channel that it demands to be known before; raises ``NsqFault``."""
        await self._change(lambda leader: self._http.register(leader, topic, channel))

    async def _change(self, change: Callable[[Address], Awaitable[None]]) -> None:
        """Have the leader make a change, or its successor when it does not lead any more.

        When the successor does not lead either, that is a lost connection, not a refusal: one of them will lead.
        """
        try:
            await self._have_changed(change)
        except ConnectionLost:
            await self.discover()
            await self._have_changed(change)

    async def _have_changed(self, change: Callable[[Address], Awaitable[None]]) -> None:
        leader = self._leading()
        try:
            await change(leader)
        except ErrorFrame as error:
            if error.code != NOT_LEADER:
                raise
            raise ConnectionLost(
                localized("nsqlookupd {address} does not lead any more", address=str(leader))
            ) from error

    def _leading(self) -> Address:
        if self.leader is None:
            raise ConnectionLost(localized("no nsqlookupd leads"))
        return self.leader

    async def _list(self, address: Address) -> LookupAddresses:
        try:
            return await self._http.listed(address)
        except ErrorFrame as error:
            if error.code not in _NO_SUCH_PATH:  # of one that is too busy, for example
                raise
            return LookupAddresses((), "")

    async def _ask(self, addresses: Sequence[Address], ask: Callable[[Address], Awaitable[Found]]) -> list[Found]:
        """Ask the nsqlookupds with a recent answer, and the others only if none of these answers."""
        now = self._clock.monotonic()
        last = [address for address in addresses if self._last.get(address, 0.0) > now]
        first = [address for address in addresses if address not in last]
        return await self._ask_at_once(first, ask) or await self._ask_at_once(last, ask)

    async def _ask_at_once(
        self, addresses: Sequence[Address], ask: Callable[[Address], Awaitable[Found]]
    ) -> list[Found]:
        tasks = {asyncio.create_task(self._persist(address, ask)): address for address in addresses}
        pending = set(tasks)
        try:
            while pending and not any(_has_answer(task) for task in tasks):
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if pending:
                _, pending = await asyncio.wait(pending, timeout=_GRACE)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in pending:
            self._put_last(tasks[task], ConnectionLost(localized("it answers later than others")))
        return [found[0] for task in tasks if task not in pending and (found := task.result())]

    async def _persist(self, address: Address, ask: Callable[[Address], Awaitable[Found]]) -> tuple[Found] | tuple[()]:
        """Ask one, and once more when it does not answer; return nothing when that fails as well."""
        for tried in range(1, _TRIES + 1):
            try:
                found = await ask(address)
            except NsqFault as fault:
                if tried == _TRIES:
                    self._put_last(address, fault)
            else:
                self._last.pop(address, None)
                if address in self.troubles:
                    self.troubles[address] = ""
                return (found,)
        return ()

    def _put_last(self, address: Address, fault: NsqFault) -> None:
        if address not in self._last:
            _log.warning("nsqlookupd %s is asked last from now on: %s", address, fault)
        self._last[address] = self._clock.monotonic() + _LAST_FOR
        if address in self.troubles:
            self.troubles[address] = text_of_error(fault)


def _has_answer(task: asyncio.Task[tuple[Found] | tuple[()]]) -> bool:
    return task.done() and not task.cancelled() and bool(task.result())


def _addresses(text: str) -> tuple[Address, ...]:
    try:
        return parse_lookupd(text)
    except ConfigurationError:
        return ()
