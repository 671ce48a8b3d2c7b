"""The view of permits that a dispatcher went by last, on its disk."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from bus.domain.shares import View

_log = logging.getLogger(__name__)


class ViewFile:
    """One view in a file of JSON; losing it costs nothing but permits while the store is away at a start."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> View:
        """Return it; one without owners when none can be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=View)
        except (OSError, msgspec.DecodeError):
            return View()

    def write(self, view: View) -> None:
        """Replace it, as far as the disk lets."""
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(view))
            fresh.replace(self._path)
        except OSError as error:
            _log.warning("the share of permits is not kept on disk: %s", error)
