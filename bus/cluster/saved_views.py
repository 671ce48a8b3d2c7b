"""The last views by which a dispatcher shared slots, kept on its disk."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from pathlib import Path

import msgspec

from bus.cluster.member import Member
from bus.domain.delivery.concurrency_shares import View
from bus.error_texts import error_text
from bus.files import write_whole

_log = logging.getLogger(__name__)


class SavedViews(msgspec.Struct, frozen=True):
    """The views that bounded the shares, and where the other dispatchers were."""

    views: tuple[View, ...]
    others: tuple[Member, ...] = ()


class ViewsFile:
    """A JSON file; without it a dispatcher that starts while the store is unavailable uses all slots."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> SavedViews:
        """Return the saved views; none when they cannot be read."""
        with suppress(OSError, msgspec.DecodeError):
            value = self._path.read_bytes()
            try:
                return msgspec.json.decode(value, type=SavedViews)
            except msgspec.ValidationError:  # of an earlier version, which kept a view alone
                return SavedViews((msgspec.json.decode(value, type=View),))
        return SavedViews(())

    async def write(self, kept: SavedViews) -> None:
        """Replace it, as far as the disk lets; durable when it returns."""
        try:
            await asyncio.to_thread(write_whole, self._path, msgspec.json.encode(kept))
        except OSError as error:
            _log.warning("the share of permits is not kept on disk: %s", error_text(error))
