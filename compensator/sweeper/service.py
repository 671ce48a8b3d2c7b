"""The sweeper as a role of a process: local queues whose owner is gone are emptied and removed."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from bus.bootstrap import Context, RoleServices
from bus.bootstrap.identity import gone_from, hold_gone
from bus.bootstrap.spools import QUEUES, is_emptied
from bus.client.sending.drain import drain
from bus.client.spooling.home import closed, orphans
from bus.cluster.handover_publisher import WaitingHandover
from bus.domain.health.vitals import ProducerFigures
from bus.error_texts import error_text
from bus.errors import BusError, SpoolClosed, SpoolLocked
from bus.spool import is_live
from bus.spool.retire import is_spool
from bus.telemetry import metrics
from bus.transports.publishing import DestinationPublisher
from compensator.sweeper.live_queues import live_queues
from compensator.sweeper.ordered_drain import OrderedDrain
from compensator.sweeper.orphan_report import PRODUCER, OrphanReport
from compensator.sweeper.orphaned_files import OrphanedFiles
from compensator.sweeper.spool_drain import SpoolDrain

_log = logging.getLogger(__name__)
_INTERVAL: Final = 5.0
_LOOK_INTERVAL: Final = 60.0


class SweeperService:
    """Looks below the directories in the setting ``sweep``, local or on a shared disk, for orphaned queues.

    A producer's queue is sent to a live receiver; a service's queue is published or stored as its process would have
    done. Trace events go to this process's own sink, and the empty directory of a service is removed. What was touched
    within ``sweep_idle`` is left alone, since its process may be about to come back.
    """

    def __init__(self, context: Context, _: RoleServices) -> None:
        self._context = context
        named = [Path(part.strip()) for part in context.settings.sweep.split(",") if part.strip()]
        self._roots = named or [context.settings.data]
        self._turn = itertools.count()
        self._stopping = threading.Event()
        self._orphans = OrphanReport()
        self._live: list[ProducerFigures] = []
        self.offers = RoleServices(
            swept=tuple(str(root.absolute()) for root in self._roots),
            orphans=lambda: self._orphans.orphans,
            producers=(lambda: self._live,),
        )
        self._remains = OrphanedFiles(context.events)
        self._gone_since: dict[Path, float] = {}
        self._closed: set[Path] = set()
        publisher = DestinationPublisher(context.router, context.events, context.clock, context.spans)
        handover = WaitingHandover(context.members, context.peers, context.leaders)
        ordered = OrderedDrain(context.store, context.registry, context.leaders, handover, context.clock)
        self._drain = SpoolDrain(
            context.store,
            context.registry,
            publisher,
            ordered,
            context.clock,
            context.rollups.count,
            context.own_events.keep_deaths,
        )

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Sweep until ``stopping``; a directory that was begun is finished or left as it is."""
        async with asyncio.TaskGroup() as group:
            sweeping = group.create_task(self._sweep_for_ever())
            looking = group.create_task(self._look_at_live())
            ready.set()
            await stopping.wait()
            self._stopping.set()
            sweeping.cancel()
            looking.cancel()

    async def _sweep_for_ever(self) -> None:
        while True:
            self._look()
            for root in self._roots:
                await self._attempt(root, self._sweep)
            self._look()
            await self._context.clock.sleep(_INTERVAL)

    async def _look_at_live(self) -> None:
        """Report what waits in the queues of producers that live here, once a minute."""
        while True:
            try:
                self._live = await asyncio.to_thread(live_queues, self._roots, self._context.clock.now())
            except OSError as error:
                _log.warning("what waits in producers' queues cannot be seen: %s", error_text(error))
            await self._context.clock.sleep(_LOOK_INTERVAL)

    def _look(self) -> None:
        """Report which orphaned queues there are now."""
        now = self._context.clock.now() / 1000
        try:
            found = [(path, PRODUCER) for root in self._roots for path in orphans(root, now)]
            found += [(path, path.name) for root in self._roots for path in self._services(root)]
            self._tell_of_closed()
        except OSError as error:
            _log.warning("which queues are orphaned cannot be seen: %s", error_text(error))
        else:
            self._orphans.see(found)

    def _tell_of_closed(self) -> None:
        """Log the queues that cannot be swept from here, each once."""
        present = {path for root in self._roots for path in closed(root)}
        for path in sorted(present - self._closed):
            _log.warning("the queue %s is another user's, whose files this sweeper may not read: it is not swept", path)
        self._closed |= present

    async def _sweep(self, root: Path) -> None:
        now = self._context.clock.now() / 1000
        for directory in [path for path in orphans(root, now) if self._is_idle(path)]:
            await self._attempt(directory, self._send)
        for directory in [path for path in self._services(root) if self._is_idle(path)]:
            await self._attempt(directory, self._empty)
        for directory in _each(root):
            await self._attempt(directory, self._clear)

    async def _attempt(self, directory: Path, work: Callable[[Path], Awaitable[None]]) -> None:
        """Do some work on a directory; a failure is reported, and does not stop the work on others."""
        try:
            await work(directory)
        except SpoolLocked:
            _log.info("the process of %s is back", directory)
        except (BusError, OSError) as error:
            text = str(error_text(error))
            self._orphans.attempted(directory, None, text)
            _log.warning("the orphaned queue %s stays as it is: %s", directory, text)
        except Exception as error:  # noqa: BLE001 - the other directories are swept
            self._orphans.attempted(directory, None, str(error_text(error)))
            _log.exception("the orphaned queue %s stays as it is", directory)

    async def _empty(self, directory: Path) -> None:
        """Move the records of a service's queue to where they were going."""
        swept = await self._drain.drain(directory)
        self._orphans.attempted(directory, swept.left)
        _report(directory, swept.moved, swept.left, removed=swept.removed)

    async def _clear(self, directory: Path) -> None:
        """Pass on trace events of processes that are gone, and remove a service's directory that is empty then."""
        await self._free(directory)
        events = self._remains.events_in(directory)
        if events is not None and self._is_idle(events):
            count = await self._remains.pass_on(events)
            if count:
                _log.info("%d blocks of trace events in %s went on their way", count, events)
        # Its copy of the configuration may be the only one, while the store's is in doubt.
        is_wanted = directory in self._roots or bool(self._context.registry.trouble)
        if self._is_long_gone(directory) and not is_wanted and self._remains.remove(directory):
            _log.info("the directory %s of a process that is gone is removed", directory)

    async def _free(self, directory: Path) -> None:
        """Delete the documents of processes whose queues are empty, and give up the orders that they kept."""
        names, members = gone_from(directory), self._context.members
        if not self._context.leaders.keeps_any(names) and not any(one.owner in names for one in members.unreachable):
            return
        with hold_gone(directory) as gone:
            emptied = {name for name, roles in gone.items() if is_emptied(directory, roles)}
            count = await self._context.leaders.release_all(emptied)
            await members.forget(emptied)
        if count:
            _log.info("%d orders that processes of %s kept are free for others", count, directory)

    def _is_long_gone(self, directory: Path) -> bool:
        """Whether every look at a directory within the last ``sweep_idle`` seconds found its services gone."""
        if not self._remains.is_service_gone(directory):
            self._gone_since.pop(directory, None)
            return False
        now = self._context.clock.monotonic()
        return now - self._gone_since.setdefault(directory, now) >= self._context.settings.sweep_idle

    async def _send(self, directory: Path) -> None:
        """Send a producer's queue to a live receiver."""
        receivers = [member for member in self._context.members.all if "receiver" in member.roles]
        if not receivers:
            _log.warning("the orphaned queue %s waits: no receiver is alive", directory)
            return
        url, key = receivers[next(self._turn) % len(receivers)].url, self._context.settings.api_key or None
        done = await asyncio.to_thread(drain, directory, url, key, rejected=False, sent=self._go_on)
        self._orphans.attempted(directory, done.waiting + done.rejected, done.problem)
        if done.problem:
            _log.warning("the orphaned queue %s is not empty: %s", directory, done.problem)
        _report(directory, done.sent, done.waiting + done.rejected, removed=done.removed)

    def _go_on(self, _: int) -> None:
        """Raise ``SpoolClosed`` if the sweeper stops; called in the thread between two requests."""
        if self._stopping.is_set():
            raise SpoolClosed("the sweeper stops; the rest is sent another time")

    def _services(self, root: Path) -> Iterator[Path]:
        """Yield the queues of services below a root: of one data directory, or of several."""
        for name in QUEUES:
            for path in itertools.chain([root / name], root.glob(f"*/{name}")):
                if is_spool(path) and not is_live(path):
                    yield path

    def _is_idle(self, directory: Path) -> bool:
        touched = 0.0
        with suppress(OSError):
            touched = max((path.stat().st_mtime for path in directory.iterdir()), default=directory.stat().st_mtime)
        # A time in the future is from before the clock was put back, so it counts by its distance as well.
        return abs(self._context.clock.now() / 1000 - touched) >= self._context.settings.sweep_idle


def _each(root: Path) -> list[Path]:
    """Return a root and the directories in it, each of which may be a service's, or the root of producers."""
    with suppress(FileNotFoundError, NotADirectoryError):
        return [root, *sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))]
    return []


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
