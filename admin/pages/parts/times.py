"""Times in the viewer's zone, with UTC on hover."""

from __future__ import annotations

from nicegui import ui

from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


def moment(viewer: Viewer, time: str | None, *, exact: bool = False) -> ui.element:
    """Return a time of the API; ``exact`` gives the time of day with milliseconds."""
    text = viewer.clock(time) if exact else viewer.time(time)
    return tag("time", "pier-number", text or "–", datetime=time, title=viewer.utc(time) or None)


def took(milliseconds: float | None) -> str:
    """Return how long something took, with a unit that fits."""
    if milliseconds is None:
        return "–"
    if milliseconds < 10:  # noqa: PLR2004 - below that a tenth counts
        return f"{milliseconds:.1f} ms"
    if milliseconds < 1000:  # noqa: PLR2004 - a second
        return f"{milliseconds:.0f} ms"
    return waited(milliseconds / 1000)


def waited(seconds: float | None) -> str:
    """Return how long something lasts or lasted: ``4.2 s``, ``3 min 5 s``, ``2 h 10 min``, ``3 d 4 h``."""
    if seconds is None:
        return "–"
    whole = round(seconds)
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s" if seconds < 10 else f"{whole} s"  # noqa: PLR2004 - below that a tenth counts
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, name in units:
        count, whole = divmod(whole, size)
        if count or parts:
            parts.append(f"{count} {name}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))
