"""Changes of the configuration by other processes: they are applied here, and read again before they may be too old."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Final, Protocol

from bus.async_helpers import first_of
from bus.cluster.members import Members
from bus.errors import StoreError
from bus.ports.clock import Clock

CONFIRMED_WITHIN: Final = 2.0
"""Seconds after which a change is answered, also when a process has not confirmed it."""
# With some time to spare between the reading of the configuration and the stamp of a message.
_CURRENT_FOR: Final = 1.5
# Of a process that was silent for 5 s the others do not wait for its confirmation; what is read counts for 1.5 s more.
_TOLD_WITHIN: Final = 3.0
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

    async def until_current(self) -> None:
        """Return once ``is_current``, within some seconds."""
        ...


class ConfigurationReader(Protocol):
    """Reads the configuration (`bus.registry.Registry`)."""

    async def load(self) -> None:
        """Read the whole configuration and put it in force."""
        ...

    async def refresh(self) -> None:
        """Do so if another process has changed it."""
        ...


class ConfigurationFollower:
    """Applies changes of other processes within a second, and shows whether all are certainly in force.

    A change of the configuration is answered once every process has it in force, at the latest after
    ``CONFIRMED_WITHIN``. So a process that has not read it for almost as long, since it is starting, was stopped or is
    overloaded, reads it before it accepts a message. One that cannot reach the store keeps its configuration.
    """

    def __init__(self, registry: ConfigurationReader, members: Members, clock: Clock) -> None:
        self._registry = registry
        self._members = members
        self._clock = clock
        self._read_at = float("-inf")
        self._failed_at = float("inf")
        self._is_cut_off = False
        self._wanted = asyncio.Event()
        # Since when (monotonic seconds) each caller waits.
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()

    @property
    def is_current(self) -> bool:
        """Whether every change is in force here that was answered until now, as far as the store can be reached."""
        return self._is_cut_off or self._clock.monotonic() - self._read_at < _CURRENT_FOR

    async def until_current(self) -> None:
        """Return once ``is_current``, within some seconds; ``run`` must be running."""
        while not self.is_current:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((self._clock.monotonic(), waiter))
            self._wanted.set()
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
            # One failure may be what is left of a time when this process stood still, and others changed something.
            self._is_cut_off = self._is_cut_off or begun > self._failed_at
            self._failed_at = min(self._failed_at, self._clock.monotonic())
        else:
            self._failed_at = float("inf")
            if is_known:
                self._read_at = begun
                # Of a store that answers so slowly, messages do not wait for each answer.
                self._is_cut_off = self._is_cut_off and self._clock.monotonic() - begun >= _CURRENT_FOR

    async def _give_up(self) -> None:
        """Limit the wait for the configuration: messages are accepted while the store cannot be reached."""
        while True:
            await self._wanted.wait()
            await self._clock.sleep(_PATIENCE)
            if self._waiting and self._clock.monotonic() - self._waiting[0][0] >= _PATIENCE:
                self._is_cut_off = True
                self._release()

    def _release(self) -> None:
        while self._waiting and self.is_current:
            waiter = self._waiting.popleft()[1]
            if not waiter.done():
                waiter.set_result(None)
