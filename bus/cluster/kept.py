"""The view by which a dispatcher last shared permits, kept on its disk."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec

from bus.domain.delivery.shares import View
from bus.files import write_whole

_log = logging.getLogger(__name__)


class ViewFile:
    """A view in a JSON file; without it a dispatcher that starts while the store is away takes all permits."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> View:
        """Return it; one without owners when none can be read."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=View)
        except (OSError, msgspec.DecodeError):
            return View()

    async def write(self, view: View) -> None:
        """Replace it, as far as the disk lets; durable when it returns."""
        try:
            await asyncio.to_thread(write_whole, self._path, msgspec.json.encode(view))
        except OSError as error:
            _log.warning("the share of permits is not kept on disk: %s", error)
