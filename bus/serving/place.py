"""The position of a process within one ``bus up``, and the files handed to it by its supervisor."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlsplit

import msgspec

from bus.bootstrap import ROLES
from bus.serving.announcement import Announcement
from bus.settings import Settings

_VARIABLE: Final = "PIER_PLACE"
_FIRST_ONLY: Final = frozenset({"admin", "alarms"})
"""The role that one process has for all: pages keep a browser's state in memory."""


class Place(msgspec.Struct, frozen=True):
    """One of several processes that serve one port, each with all that messages need; numbers are file descriptors.

    Attributes
    ----------
    number
        Which one, from 0; the first serves pages, the admin API and the metrics of all.
    port
        The one that all serve.
    urls
        Where each is reached by the others.
    listener
        The socket of the common port that this process accepts from.
    own
        The socket of its own URL.
    passing
        Where connections go that the first process has to serve: it reads, the others write.
    leash
        At its end once the supervisor is gone.
    ready
        Takes the announcement once this process serves.
    slots
        Files whose locks are slots of subscriptions, opened for this process; see ``SlotFiles``.
    wakeups
        By number, the socket by which each process is woken for a slot; it reads from its own.
    """

    number: int
    port: int
    urls: tuple[str, ...]
    listener: int
    own: int
    passing: int
    leash: int
    ready: int
    slots: tuple[int, ...] = ()
    wakeups: tuple[int, ...] = ()

    @classmethod
    def inherited(cls) -> Self | None:
        """Return what a supervisor has said, once; None for a process without one."""
        found = os.environ.pop(_VARIABLE, None)
        return None if found is None else msgspec.json.decode(found, type=cls)

    def environment(self) -> dict[str, str]:
        """Return the environment of the process at this place."""
        return {**os.environ, _VARIABLE: msgspec.json.encode(self).decode()}

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What the process at this place inherits."""
        return self.listener, self.own, self.passing, self.leash, self.ready, *self.slots, *self.wakeups

    @property
    def is_first(self) -> bool:
        """Whether it serves for all what only one can."""
        return self.number == 0

    @property
    def siblings(self) -> tuple[str, ...]:
        """Where the other processes are reached."""
        return tuple(url for number, url in enumerate(self.urls) if number != self.number)

    @property
    def roles(self) -> tuple[str, ...]:
        """What the process does."""
        return ROLES if self.is_first else tuple(role for role in ROLES if role not in _FIRST_ONLY)

    def announce(self, found: Announcement) -> None:
        """Tell the supervisor that this process serves."""
        with os.fdopen(self.ready, "wb") as file:
            file.write(msgspec.json.encode(found))

    def common(self, data: Path) -> Path:
        """Return the directory of what all processes have together, from this one's own."""
        return data if self.is_first else data.parent

    def settings(self, common: Settings) -> Settings:
        """Return the settings of this process: its part of the disk, its name, and where the others reach it."""
        port = urlsplit(self.urls[self.number]).port
        changes: dict[str, object] = {
            "node": f"{common.node or f'{socket.gethostname()}:{self.port}'}.{self.number}",
            "spool_limit": max(common.spool_limit // len(self.urls), 1),
            "data": data_of(common.data, self.number),
            "store": common.store or f"sqlite:///{common.data.absolute() / 'store'}",
        }
        if common.advertise:
            common_url = urlsplit(common.advertise)
            host = f"[{common_url.hostname}]" if ":" in (common_url.hostname or "") else common_url.hostname
            changes["advertise"] = common_url._replace(netloc=f"{host}:{port}").geturl()
        return common.model_copy(update=changes)


def data_of(data: Path, number: int) -> Path:
    """Return the data directory of a process: the first has that of a bus of one process."""
    return data / f"p{number}" if number else data


def left_behind(data: Path, of: int) -> list[Path]:
    """Return the data directories of processes that a bus of so many has no more."""
    return sorted(path for path in _numbered(data) if int(path.name[1:]) >= of)


def _numbered(data: Path) -> Iterable[Path]:
    return (path for path in data.glob("p[1-9]*") if path.name[1:].isdecimal() and path.is_dir())
