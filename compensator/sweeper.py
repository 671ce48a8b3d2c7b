"""The sweeper as a role of a process: local queues whose owner is gone are emptied and removed."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bus.bootstrap import Context
from bus.client.drain import drain
from bus.client.home import orphans
from bus.errors import BusError, SpoolLocked
from bus.spool import is_live
from bus.telemetry import metrics
from compensator.leftovers import Leftovers

_log = logging.getLogger(__name__)
_INTERVAL: Final = 5.0


class SweeperService:
    """Looks below the directories that ``sweep`` names, one machine's or a shared disk's, for queues of the gone.

    A producer's queue goes to a receiver that lives; a service's queue goes where it was going. What was touched within
    ``sweep_idle`` is left alone, since its process may be about to come back.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._roots = [Path(part.strip()) for part in context.settings.sweep.split(",") if part.strip()]
        self._leftovers = Leftovers(context.store, context.registry, context.roads, context.clock)

    def routes(self) -> dict[str, Callable[..., Any]]:
        """Return no routes."""
        return {}

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Sweep until ``stopping``; a directory that was begun is finished or left as it is."""
        async with asyncio.TaskGroup() as group:
            sweeping = group.create_task(self._sweep_for_ever())
            ready.set()
            await stopping.wait()
            sweeping.cancel()

    async def _sweep_for_ever(self) -> None:
        while True:
            for root in self._roots or [self._context.settings.data]:
                await self._sweep(root)
            await self._context.clock.sleep(_INTERVAL)

    async def _sweep(self, root: Path) -> None:
        now = self._context.clock.now() / 1000
        for directory in [path for path in orphans(root, now) if self._is_idle(path)]:
            await self._send(directory)
        for directory in [path for path in self._services(root) if self._is_idle(path)]:
            try:
                swept = await self._leftovers.drain(directory)
            except SpoolLocked:
                continue  # its process is back
            except BusError as error:
                _log.warning("the orphaned queue %s stays as it is: %s", directory, error)
            else:
                _report(directory, swept.moved, swept.left, removed=swept.removed)

    async def _send(self, directory: Path) -> None:
        """Have a receiver take what a producer left behind."""
        receivers = [member for member in self._context.members.all if "receiver" in member.roles]
        if not receivers:
            _log.warning("the orphaned queue %s waits: no receiver is alive", directory)
            return
        url, key = receivers[0].url, self._context.settings.api_key or None
        done = await asyncio.to_thread(drain, directory, url, key, rejected=False, sent=lambda _: None)
        if done.problem:
            _log.warning("the orphaned queue %s is not empty: %s", directory, done.problem)
        _report(directory, done.sent, done.waiting + done.rejected, removed=done.removed)

    def _services(self, root: Path) -> Iterator[Path]:
        """Yield the queues of services below a root: of one data directory, or of several."""
        for name in self._leftovers.names:
            for path in itertools.chain([root / name], root.glob(f"*/{name}")):
                if path.is_dir() and not is_live(path):
                    yield path

    def _is_idle(self, directory: Path) -> bool:
        touched = 0.0
        with suppress(FileNotFoundError):
            touched = max((path.stat().st_mtime for path in directory.iterdir()), default=directory.stat().st_mtime)
        return self._context.clock.now() / 1000 - touched >= self._context.settings.sweep_idle


def _report(directory: Path, moved: int, left: int, *, removed: bool) -> None:
    metrics.SWEPT.inc(moved)
    _log.info(
        "orphaned queue %s: %d records went on their way, %d are left%s",
        directory,
        moved,
        left,
        ", the directory is removed" if removed else "",
    )


ROLE = SweeperService
