"""Figures: counts, rates and sizes as text."""

from __future__ import annotations

from collections.abc import Sequence

from admin.pages.parts.tags import Tag, tag
from bus.domain.sizes import format_size


def count(number: float | None) -> str:
    """Return a count with its thousands apart."""
    return "–" if number is None else f"{number:,.0f}".replace(",", "\u202f")


def rate(number: float | None) -> str:
    """Return a count per second."""
    if number is None:
        return "–"
    return f"{number:.2f}" if 0 < number < 10 else count(number)  # noqa: PLR2004 - below that hundredths count


def share(number: float | None) -> str:
    """Return a share as per cent; only 1 reads as 100 %."""
    if number is None:
        return "–"
    text = f"{number * 100:.2f}"
    if number < 1 and text == "100.00":
        return "> 99.99 %"
    return f"{text.rstrip('0').rstrip('.')} %"


def size(number: float | None) -> str:
    """Return bytes with a unit that fits."""
    return "–" if number is None else format_size(number)


def figures(shown: Sequence[tuple[str, str, str]]) -> None:
    """Show figures side by side: name, value, and a short remark."""
    with tag("dl", "pier-figures"):
        for name, value, more in shown:
            with tag("div", "pier-figure"):
                tag("dt", "", name)
                with tag("dd", "", value):
                    tag("small", "", f" {more}" if more else "")


class Figures:
    """Figures side by side that change in place: their texts alone, since elements cost more than all else."""

    def __init__(self) -> None:
        self._holder = tag("dl", "pier-figures")
        self._shown: dict[str, tuple[Tag, Tag]] = {}

    def update(self, shown: Sequence[tuple[str, str, str]]) -> None:
        """Show these; a new name is added at the end."""
        for name, value, more in shown:
            if name not in self._shown:
                with self._holder, tag("div", "pier-figure"):
                    tag("dt", "", name)
                    with tag("dd"):
                        self._shown[name] = (tag("span"), tag("small"))
            whole, remark = self._shown[name]
            whole.set_text(value)
            remark.set_text(f" {more}" if more else "")


def pairs(shown: Sequence[tuple[str, object]]) -> None:
    """Show names and values, one below the other; a value is a text, or a function that shows it."""
    with tag("dl", "pier-pairs"):
        for name, value in shown:
            tag("dt", "", name)
            if callable(value):
                with tag("dd"):
                    value()
            else:
                tag("dd", "pier-bidi", value)
