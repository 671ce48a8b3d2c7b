"""The configuration as other processes change it: put in force here, and read again before it may be too old."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from bus.cluster.members import Members
from bus.errors import StoreError
from bus.ports.clock import Clock
from bus.waits import first_of

CONFIRMED_WITHIN: Final = 2.0
"""Seconds after which a change is answered, also when a process has not confirmed it."""
# With some time to spare between the reading of the configuration and the stamp of a message.
_CURRENT_FOR: Final = 1.5
# Of a process that was silent for longer, the others may not wait for its confirmation.
_TOLD_WITHIN: Final = 4.0
_PATIENCE: Final = 2.0
_AGAIN: Final = 0.1
_FOLLOW: Final = 0.5
_RELOAD_ROUNDS: Final = 60

_log = logging.getLogger(__name__)


class Configuration(Protocol):
    """The configuration in force in this process."""

    @property
    def is_current(self) -> bool:
        """Whether every change is in force here that was answered until now, as far as the store can be reached."""
        ...

    def call_when_current(self, call: Callable[[], None]) -> None:
        """Have a function called once ``is_current``, within some seconds."""
        ...

    async def until_current(self) -> None:
        """Return once ``is_current``, within some seconds."""
        ...


class Reading(Protocol):
    """Reads the configuration (`bus.registry.Registry`)."""

    async def load(self) -> None:
        """Read all of it and put it in force."""
        ...

    async def refresh(self) -> None:
        """Do so if another process has changed it."""
        ...


class ConfigurationFollower:
    """Puts what other processes change in force within a second, and says whether that is certain.

    A change of the configuration is answered once every process has it in force, at the latest after
    ``CONFIRMED_WITHIN``. So a process that has not read it for almost as long, since it is starting, was stopped or is
    overloaded, reads it before it accepts a message. One that cannot reach the store goes on with what it has.
    """

    def __init__(self, registry: Reading, members: Members, clock: Clock) -> None:
        self._registry = registry
        self._members = members
        self._clock = clock
        self._read_at = float("-inf")
        self._is_cut_off = False
        self._wanted = asyncio.Event()
        # Since when (monotonic seconds) each call waits.
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()

    @property
    def is_current(self) -> bool:
        """Whether every change is in force here that was answered until now, as far as the store can be reached."""
        is_read = self._clock.monotonic() - self._read_at < _CURRENT_FOR
        return is_read or self._is_cut_off or self._members.is_cut_off

    def call_when_current(self, call: Callable[[], None]) -> None:
        """Have a function called once ``is_current``, within some seconds; ``run`` must be running."""
        self._waiting.append((self._clock.monotonic(), call))
        self._wanted.set()

    async def until_current(self) -> None:
        """Return once ``is_current``."""
        while not self.is_current:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.call_when_current(partial(_wake, waiter))
            await waiter

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._give_up())
            rounds = 0
            while True:
                # Once in a while everything is read: a process may have died between a change and its note.
                await self._read(everything=rounds % _RELOAD_ROUNDS == _RELOAD_ROUNDS - 1)
                rounds += 1
                self._release()
                if self._waiting:
                    await self._clock.sleep(_AGAIN)
                else:
                    self._wanted.clear()
                    await first_of(self._clock.sleep(_FOLLOW), self._wanted.wait())

    async def _read(self, *, everything: bool) -> None:
        begun = self._clock.monotonic()
        is_known = begun - self._members.told_at < _TOLD_WITHIN
        try:
            await (self._registry.load() if everything else self._registry.refresh())
        except StoreError as error:
            _log.debug("the configuration stays as it was while the store does not answer: %s", error)
            self._is_cut_off = True
        else:
            if is_known:
                self._read_at, self._is_cut_off = begun, False

    async def _give_up(self) -> None:
        """Have the calls made that wait for too long: messages are accepted while the store cannot be reached."""
        while True:
            await self._wanted.wait()
            await self._clock.sleep(_PATIENCE)
            if self._waiting and self._clock.monotonic() - self._waiting[0][0] >= _PATIENCE:
                self._is_cut_off = True
                self._release()

    def _release(self) -> None:
        while self._waiting and self.is_current:
            self._waiting.popleft()[1]()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
