"""Leftovers on groups outside of a chain: messages that arrived there after its readers had left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

from bus.domain.message import Message
from bus.domain.ordering.chain import Chain
from bus.domain.ordering.reader import ChainReader
from bus.ports.broker_group import BrokerGroup
from bus.transports.chains.driver import ChainDriver

_log = logging.getLogger(__name__)
_IDLE: Final = 2.0
_AT_ONCE: Final = 32


class Leftovers:
    """Has such messages written again, so that the group is empty and can take messages once more.

    All of them are of an older epoch than what was given meanwhile: an unconfirmed write that came late, or what a
    group had that a person gave up for lost.
    """

    def __init__(
        self,
        code: str,
        rules: ChainReader,
        driver: ChainDriver,
        groups: Mapping[str, BrokerGroup],
        subscriptions: Callable[[], Collection[str]],
        send_again: Callable[[Message], Awaitable[bool]],
    ) -> None:
        self._code = code
        self._rules = rules
        self._driver = driver
        self._groups = groups
        self._subscriptions = subscriptions
        self._send_again = send_again

    async def clear(self) -> None:
        """Look at each group outside of the chain, and empty those that hold something."""
        for name, group in self._groups.items():
            if await self._is_left_over(name, group):
                for subscription in sorted(self._subscriptions()):
                    await self._empty(name, group, subscription)

    async def _is_left_over(self, name: str, group: BrokerGroup) -> bool:
        if not await self._is_outside(name):
            return False
        standing = await group.standing(self._code, sorted(self._subscriptions()))
        return standing.is_whole and not standing.is_empty

    async def _is_outside(self, name: str) -> bool:
        """Whether no process is to read a group, as the coordinator says now, and this process would be the one."""
        chain: Chain | None = await self._driver.perform(self._rules.copy.read())
        tenure = self._rules.tenure
        return chain is not None and tenure.is_held and tenure.is_mine(chain) and not chain.holds(name)

    async def _empty(self, name: str, group: BrokerGroup, subscription: str) -> None:
        reader = await group.reader(self._code, subscription)
        try:
            while True:
                try:
                    async with asyncio.timeout(_IDLE):
                        found = await reader.receive(_AT_ONCE)
                except TimeoutError:
                    return
                for item in found:
                    if not await self._is_outside(name) or not await self._send_again(item.message):
                        return
                    _log.warning(
                        "message %s of %s was left on group %s, and is sent again", item.message.id, self._code, name
                    )
                    reader.ack([item])
        finally:
            await reader.close()
