"""Files of dead processes besides queues: trace events, and the data directory."""

from __future__ import annotations

import asyncio
import logging
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec

from bus.bootstrap.data_format import NAME as FORMAT
from bus.client.spooling.home import homes
from bus.domain.tracing.events import decode_block
from bus.errors import SpoolLocked
from bus.events.files import CLOSED, OPEN, adopt
from bus.events.gathering import stages_of
from bus.observing.disks import SAMPLES
from bus.ports.events import Events, SealedBlock
from bus.spool import is_live
from bus.spool.inspect import Inspection
from bus.spool.lock import OwnerLock
from bus.spool.retire import is_spool
from compensator.alarms.alarm_file import NAME as WATCH

_log = logging.getLogger(__name__)
EVENTS: Final = "events"
_PROCESSES: Final = "processes"
_QUARANTINE: Final = "quarantine"
# All that a service with a remote store has in its directory. The configuration is a copy of the store's, and what one
# knew of alarms is there as well, or is seen anew by the next that looks.
_OWN: Final = frozenset({_PROCESSES, _QUARANTINE, "configuration", "permits.json", FORMAT, WATCH, SAMPLES})
_BLOCKS: Final = 64


class OrphanedFiles:
    """Passes on trace events of processes that are gone, and removes data directories that are otherwise empty."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def events_in(self, directory: Path) -> Path | None:
        """Return the folder of trace events in a directory; None while a live process there passes them on itself."""
        if any(is_live(one) for one in _processes(directory)) or any(is_live(home) for home in homes(directory)):
            return None
        return directory / EVENTS if (directory / EVENTS).is_dir() else None

    def is_service_gone(self, directory: Path) -> bool:
        """Whether a directory belongs to service processes, none of which is alive."""
        processes = _processes(directory)
        return bool(processes) and not any(map(is_live, processes))

    async def pass_on(self, folder: Path) -> int:
        """Pass on the trace events of a folder and remove it; return how many blocks were passed on.

        A file is removed once the sink has all of it. One that cannot be read stays, and so does the folder.

        Raises
        ------
        EventsUnavailable
            The sink does not take them now; the rest stays.
        OSError
            The disk failed.
        """
        if not self._events.is_on:
            return 0
        count = 0
        for path in _closed(folder):
            blocks = await asyncio.to_thread(_blocks_of, path)
            if blocks is None:
                continue
            for start in range(0, len(blocks), _BLOCKS):
                await self._events.forward(blocks[start : start + _BLOCKS])
            path.unlink()
            count += len(blocks)
        _remove_empty(folder)
        return count

    def remove(self, directory: Path) -> bool:
        """Remove the directory of services that are gone, if it has only files that no other process needs.

        It is renamed first, so that a service that starts there meanwhile makes a new one.
        """
        processes = _processes(directory)
        if not processes or not _is_spent(directory):
            return False
        gone = directory.with_name(f".{directory.name}.gone")
        with ExitStack() as locks:
            try:
                for process in processes:
                    locks.callback(OwnerLock.take(process).release)
            except SpoolLocked:
                return False
            if gone.is_dir():  # a removal that was cut off
                if not _is_spent(gone):
                    return False
                shutil.rmtree(gone)
            directory.rename(gone)
            if len(_processes(gone)) > len(processes) or not _is_spent(gone):
                gone.rename(directory)  # a process started there meanwhile, or something was written
                return False
            shutil.rmtree(gone)
        return True


def _processes(directory: Path) -> list[Path]:
    with suppress(FileNotFoundError, NotADirectoryError):
        return [path for path in (directory / _PROCESSES).iterdir() if path.is_dir()]
    return []


def _is_spent(directory: Path) -> bool:
    if {path.name for path in directory.iterdir()} - _OWN:
        return False
    aside = directory / _QUARANTINE
    if not is_spool(aside):
        return not aside.exists()
    if is_live(aside):
        return False
    with Inspection(aside) as inspection:
        found = inspection.overview()
    return not (found.records or found.damaged or found.evidence)


def _closed(folder: Path) -> list[Path]:
    """Close the file that was still open, and return all closed files of a folder."""
    for path in folder.glob(f"*{OPEN}"):
        adopt(path, lambda _: None)
    return sorted(folder.glob(f"*{CLOSED}"))


def _remove_empty(folder: Path) -> None:
    with suppress(OSError):  # something is left in it
        folder.rmdir()


def _blocks_of(path: Path) -> list[SealedBlock] | None:
    """Return the blocks of a closed file; None, with a warning, for one that this version cannot read."""
    blocks = []
    for line in path.read_bytes().splitlines():
        try:
            block = decode_block(line)
        except msgspec.DecodeError as error:
            _log.warning("the trace events in %s stay there, they cannot be read: %s", path, error)
            return None
        blocks.append(SealedBlock(block.emitter, line, stages_of(block.events)))
    return blocks
