"""The queues of processes that are gone, as a sweeper sees them, with the result of its last attempt to empty them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from bus.domain.health.vitals import Orphan

PRODUCER: Final = "producer"


class _Attempt(NamedTuple):
    """The records that the last attempt to empty a queue left, None when it failed, and why."""

    left: int | None
    trouble: str


class OrphanReport:
    """Keeps what a sweeper sees, for reports.

    The queues are not opened for it: opening one counts as a touch, and none would ever be idle for long enough.
    """

    def __init__(self) -> None:
        self._attempts: dict[Path, _Attempt] = {}
        self._seen: list[Orphan] = []

    @property
    def orphans(self) -> list[Orphan]:
        """The queues that were there when a sweep looked last, by directory."""
        return self._seen

    def attempted(self, directory: Path, left: int | None, trouble: str = "") -> None:
        """Note how many records an attempt to empty a queue has left, None when it failed, and what stopped it."""
        self._attempts[directory] = _Attempt(left, trouble)

    def see(self, found: Iterable[tuple[Path, str]]) -> None:
        """Note what is there now, each with its kind."""
        present = dict(found)
        self._attempts = {path: attempt for path, attempt in self._attempts.items() if path in present}
        self._seen = sorted(
            (self._orphan(path, kind) for path, kind in present.items()), key=lambda orphan: orphan.directory
        )

    def _orphan(self, directory: Path, kind: str) -> Orphan:
        size, touched = 0, 0.0
        with suppress(OSError):
            for path in directory.iterdir():
                found = path.stat()
                size, touched = size + found.st_size, max(touched, found.st_mtime)
        attempt = self._attempts.get(directory, _Attempt(None, ""))
        return Orphan(str(directory), kind, attempt.left, size, round(touched * 1000), attempt.trouble)
