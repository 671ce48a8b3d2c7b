"""Sizes as people read them: ``64 B``, ``1.5 GiB``."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def format_size(number: float) -> str:
    """Return bytes with a unit that fits, with two digits at least."""
    value = float(number)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:  # noqa: PLR2004 - the next unit
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"  # noqa: PLR2004 - three digits
        value /= 1024
    raise AssertionError(_UNITS)
