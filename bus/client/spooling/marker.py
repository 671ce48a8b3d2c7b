"""The leases of strictly ordered destinations that a spool directory has, on disk before they are asked for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from bus.error_texts import error_text
from bus.errors import NotLeader, SpoolFailed
from bus.files import write_whole

_log = logging.getLogger("bus.client")
_FILE: Final = "producing.json"


class Marker:
    """The destinations whose lease a directory has, or may have; the directory's name is the owner's.

    The directory stays as long as there are any: it is the only evidence that they are to be released. Any thread may
    use it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._codes = _read(directory / _FILE)
        self._ending: set[str] = set()
        self._changing = Lock()

    @property
    def owner(self) -> str:
        """The owner of the leases: one run of a process."""
        return self._directory.name

    @property
    def codes(self) -> frozenset[str]:
        """The destinations."""
        return self._codes

    @property
    def ending(self) -> list[str]:
        """Destinations whose lease is to be released once no message under it is queued."""
        return sorted(self._ending & self._codes)

    def begin(self, code: str) -> None:
        """Note a lease that is about to be asked for; on disk when it returns.

        Raises
        ------
        NotLeader
            This process sends alone to the destination already.
        SpoolFailed
            The disk does not take it.
        """
        with self._changing:
            if code in self._codes and code not in self._ending:
                raise NotLeader(
                    f"this process has a sender to {code!r} already",
                    hint="use that one, from as many threads as you like, or close it first",
                )
            self._put(self._codes | {code})
            self._ending.discard(code)

    def end(self, codes: Collection[str]) -> None:
        """Have leases released once nothing of them waits."""
        self._ending.update(codes)

    def forget(self, code: str) -> None:
        """Note that a lease was not given, or is released; raises ``SpoolFailed`` when the disk does not take it."""
        with self._changing:
            self._forget(code)

    def release(self, code: str, ask: Callable[[str, str], bool]) -> bool:
        """Have ``ask``, called with code and owner, release a lease, unless it is in use; return whether it ended.

        Raises ``SpoolFailed`` when the disk does not take it: it is released again then, which changes nothing.
        """
        with self._changing:
            if code not in self._ending or not ask(code, self.owner):
                return False
            self._forget(code)
            return True

    def _forget(self, code: str) -> None:
        self._put(self._codes - {code})
        self._ending.discard(code)

    def _put(self, codes: frozenset[str]) -> None:
        if codes == self._codes:
            return
        try:
            write_whole(self._directory / _FILE, msgspec.json.encode(sorted(codes)))
        except OSError as error:
            raise SpoolFailed(f"{self._directory} does not take which leases it has: {error_text(error)}") from error
        self._codes = codes


def _read(path: Path) -> frozenset[str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=frozenset[str])
    except FileNotFoundError:
        return frozenset()
    except (OSError, msgspec.DecodeError) as error:
        _log.error("%s cannot be read, so the leases in it are not released: %s", path, error)
        return frozenset()
