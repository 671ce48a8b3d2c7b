"""The spools of a process: the sections of its journal, and what earlier processes left in its data directory."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from bus.errors import SpoolLocked
from bus.ports.spool import Spool
from bus.spool import AsyncSpool, Journal, Options, SectionOptions
from bus.spool.retire import is_spool, remove
from bus.spool.takeover import take_over
from bus.transports.quarantine import OPERATOR

_log = logging.getLogger(__name__)


class _Section(NamedTuple):
    """A spool of a role, in the journal of its process: the consumers that every one of its lanes has."""

    role: str
    consumers: tuple[str, ...]


_SECTIONS: Final = {
    "receiver": _Section("receiver", ("publish", "store")),
    "direct": _Section("dispatcher", ()),
    "outcomes": _Section("dispatcher", ("store",)),
}
_QUARANTINE: Final = "quarantine"
_JOURNALS: Final = {
    "journal": frozenset({"receiver", "dispatcher"}),
    "journal-receiver": frozenset({"receiver"}),
    "journal-dispatcher": frozenset({"dispatcher"}),
}
"""Directories by the roles whose sections are in them: processes of one role each may share a data directory."""
_CACHE: Final = 16 << 20
# Before there were journals each section was a spool by itself. What a dispatcher delivered is known before what its
# queue still has becomes due work.
QUEUES: Final = (*_JOURNALS, "outcomes", "receiver", "direct")
"""Directories of queues below a data directory, in the order in which to empty them."""


async def open_spools(
    data: Path, roles: Sequence[str], limit: int, reserve: int, opened: AsyncExitStack, left: Sequence[Path] = ()
) -> dict[str, Spool]:
    """Open the spools that roles need, with all that is left of earlier processes, and close them with ``opened``.

    Parameters
    ----------
    limit
        Bytes that the records of one spool may take.
    reserve
        Bytes of free disk below which only outcomes, and what was accepted already, are taken.
    left
        Data directories of processes that do not come back; what waits there goes on here.

    Raises
    ------
    SpoolLocked
        Another process works on this data directory in one of the roles.
    SpoolFailed
        The disk failed.
    """
    mine = frozenset(section.role for section in _SECTIONS.values() if section.role in roles)
    if not mine:
        return {}
    name = next(name for name, owners in _JOURNALS.items() if owners == mine)
    options = Options(sections=_plan(mine, limit), reserve=reserve, cache_bytes=_CACHE)
    journal = await Journal.open(data / name, options)
    opened.push_async_callback(journal.close)
    spools: dict[str, Spool] = dict(journal.sections)
    if "dispatcher" in mine:
        only = Options(consumers=_consumers(_QUARANTINE), limit=limit, reserve=reserve)
        spools[_QUARANTINE] = quarantine = await AsyncSpool.open(data / _QUARANTINE, only)
        opened.push_async_callback(quarantine.close)
    others = [data / other for other in QUEUES if other != name]
    for directory in [*others, *(gone / queue for gone in left for queue in (*QUEUES, _QUARANTINE))]:
        if is_spool(directory):
            await _take_over(directory, spools)
    return spools


@asynccontextmanager
async def open_left(directory: Path) -> AsyncIterator[Mapping[str, Spool]]:
    """Open what a process left behind, a directory of queues, as spools by name.

    Raises
    ------
    SpoolLocked
        Its process is back.
    SpoolFailed
        The disk failed.
    """
    if directory.name in _JOURNALS:
        journal = await Journal.open(directory, Options(sections=_plan(_JOURNALS[directory.name])))
        spools, close = dict[str, Spool](journal.sections), journal.close
    else:
        spool = await AsyncSpool.open(directory, Options(consumers=_consumers(directory.name)))
        spools, close = {directory.name: spool}, spool.close
    try:
        yield spools
    finally:
        await close()


def is_emptied(data: Path, roles: frozenset[str]) -> bool:
    """Whether a data directory has no queues any more of a process with these roles."""
    return not queues_of(data, roles)


def directories_of_queues(data: Path) -> list[Path]:
    """Return where processes of any role have or had queues below a data directory, there or not."""
    return [data / name for name in (*QUEUES, _QUARANTINE)]


def queues_of(data: Path, roles: frozenset[str]) -> list[Path]:
    """Return the directories of queues below a data directory that processes with one of these roles have or left."""
    mine = frozenset(section.role for section in _SECTIONS.values() if section.role in roles)
    names = [name for name, owners in _JOURNALS.items() if owners & mine] + [
        name for name, section in _SECTIONS.items() if section.role in mine
    ]
    return [data / name for name in names if is_spool(data / name)]


def _consumers(name: str) -> tuple[str, ...]:
    return (OPERATOR,) if name == _QUARANTINE else _SECTIONS[name].consumers


def _plan(roles: frozenset[str], limit: int = SectionOptions.limit) -> dict[str, SectionOptions]:
    return {
        name: SectionOptions(section.consumers, limit) for name, section in _SECTIONS.items() if section.role in roles
    }


async def _take_over(directory: Path, sections: Mapping[str, Spool]) -> None:
    """Move what is left in a directory for these sections into them, and remove it when it is empty then."""
    try:
        async with open_left(directory) as left:
            moved = 0
            for name, spool in left.items():
                if name in sections:
                    moved += await take_over(spool, sections[name])
            is_empty = not any(spool.stats().records or spool.stats().damaged for spool in left.values())
    except SpoolLocked:
        return  # a process of another role works on it
    if moved:
        _log.info("%d records of %s go on from this process's journal", moved, directory)
    if is_empty:
        remove(directory)
