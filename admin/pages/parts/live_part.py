"""Parts of a page that update while it is open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from admin.pages.parts.tags import tag

_NOTHING: Final = object()


class LivePart:
    """A part that is rebuilt when its content has changed, and otherwise left as it is."""

    def __init__(self, build: Callable[[Any], object]) -> None:
        self._build = build
        self._holder = tag("div")
        self._shown: object = _NOTHING

    def update(self, data: object) -> None:
        """Show this."""
        if data == self._shown:
            return
        self._shown = data
        self._holder.clear()
        with self._holder:
            self._build(data)
