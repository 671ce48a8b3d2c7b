"""Drawing a part of a page again."""

from __future__ import annotations

from nicegui import ui


def anew(element: ui.element) -> ui.element:
    """Empty an element and return it, to be filled again."""
    element.clear()
    return element
