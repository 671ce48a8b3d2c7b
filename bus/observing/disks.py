"""The disks that a process writes to: what is free on them, and when they will be full."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from bus.bootstrap import Context, Fill, RoleServices, embedded
from bus.domain.health.forecast import Sample, full_in, kept
from bus.domain.health.vitals import DiskFigures
from bus.error_texts import error_text
from bus.files import write_whole
from bus.ports.clock import Clock
from bus.settings import Settings
from bus.telemetry import metrics
from bus.telemetry.outage import Outage

_log = logging.getLogger(__name__)
SAMPLES: Final = "disk.samples"
"""The file of a data directory with what was measured, so that a restart knows it."""
_INTERVAL: Final = 60.0
_WRITTEN_EVERY: Final = 5
_STALE: Final = 5.0


class _DiskUsage(msgspec.Struct, frozen=True, array_like=True):
    """What was measured of a directory's disk: ``total`` may be used of its ``size``, which tells it from another."""

    device: int
    size: int
    total: int
    free: int
    samples: list[Sample]


class _DiskLook(NamedTuple):
    at: float
    found: Sequence[DiskFigures]


class DiskWatch:
    """Measures the disks of some directories every minute, and tells nothing of one that does not answer.

    What was measured in the last hour is kept in the first directory.

    Parameters
    ----------
    reserve
        Returns the free bytes of a disk of so many that are kept.
    """

    def __init__(self, directories: Sequence[Path], reserve: Callable[[int], int], clock: Clock) -> None:
        self._directories = directories
        self._reserve = reserve
        self._clock = clock
        self._file = directories[0] / SAMPLES
        self._known: dict[str, _DiskUsage] = {}
        self._looked = _DiskLook(float("-inf"), ())
        self._outage = Outage(_log, "how disks fill is not kept for the next start")
        self._unread = Outage(_log, "what is free on disk is not known")
        self.offers = RoleServices(disks=self.figures, meters=(self._measure,))

    def figures(self) -> list[DiskFigures]:
        """Return what was measured last; nothing if that is minutes ago."""
        is_stale = self._clock.monotonic() - self._looked.at > _STALE * _INTERVAL
        return [] if is_stale else list(self._looked.found)

    async def run(self) -> None:
        """Measure until cancelled."""
        self._known = await asyncio.to_thread(self._read)
        while True:
            for _ in range(_WRITTEN_EVERY):
                # In a thread: a file system of the network may not answer.
                await asyncio.to_thread(self.step)
                await self._clock.sleep(_INTERVAL)
            await asyncio.to_thread(self._write)

    def step(self) -> None:
        """Measure once."""
        now = self._clock.now()
        try:
            self._known = {str(path): _measured(path, self._known.get(str(path)), now) for path in self._directories}
        except OSError as error:
            self._unread.goes_on(error)
            return
        self._unread.is_over()
        found = [self._judged(path, one) for path, one in self._known.items()]
        self._looked = _DiskLook(self._clock.monotonic(), found)

    def _judged(self, path: str, one: _DiskUsage) -> DiskFigures:
        # New messages are refused by the data directory's disk alone.
        reserve = self._reserve(one.size) if path == str(self._directories[0]) else 0
        return DiskFigures(path, one.device, one.free, one.total, reserve, full_in(one.samples, one.free - reserve))

    def _read(self) -> dict[str, _DiskUsage]:
        try:
            return msgspec.msgpack.decode(self._file.read_bytes(), type=dict[str, _DiskUsage])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError) as error:
            _log.warning("how disks filled before this start is not known: %s", error_text(error))
            return {}

    def _write(self) -> None:
        try:
            write_whole(self._file, msgspec.msgpack.encode(self._known))
        except OSError as error:
            self._outage.goes_on(error)
        else:
            self._outage.is_over()

    def _measure(self) -> Fill:
        return partial(_fill, {one.path: one for one in self.figures()})


def watch_of(context: Context) -> DiskWatch:
    """Return the watch of a process's data directory, and of its store where that is on another disk."""
    settings = context.settings
    return DiskWatch(_directories(settings), settings.reserve, context.clock)


def _directories(settings: Settings) -> list[Path]:
    data, store = settings.data.absolute(), embedded(settings)
    if store is None or store.stat().st_dev == data.stat().st_dev:
        return [data]
    return [data, store.absolute()]


def _measured(path: Path, before: _DiskUsage | None, now: int) -> _DiskUsage:
    """Return what is measured of a directory's disk, with what was before; raises ``OSError``."""
    found, device = os.statvfs(path), path.stat().st_dev
    used, free = (found.f_blocks - found.f_bfree) * found.f_frsize, found.f_bavail * found.f_frsize
    size = found.f_blocks * found.f_frsize
    samples = before.samples if before is not None and before.size == size else []
    return _DiskUsage(device, size, used + free, free, kept(samples, Sample(now, used)))


def _fill(found: Mapping[str, DiskFigures]) -> None:
    for path, one in found.items():
        metrics.DISK_FREE.labels(path).set(one.free)
        metrics.DISK_TOTAL.labels(path).set(one.total)
        if one.full_in is not None:
            metrics.DISK_FULL_IN.labels(path).set(one.full_in / 1000)
