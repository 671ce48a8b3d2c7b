"""Labels of a time axis, at round times of the viewer's clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from admin.pages.viewer import Viewer

_MOST: Final = 8
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_STEPS: Final = (
    *(1, 5, 15, 30),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 30)),
)


def round_ticks(viewer: Viewer, times: Sequence[str]) -> list[int]:
    """Return the places of the times that are round, few enough to have labels side by side.

    Parameters
    ----------
    times
        The beginnings of periods that follow each other, as the API writes them.
    """
    seconds = [viewer.wall_seconds(time) for time in times]
    for step in _STEPS:
        found = [place for place, at in enumerate(seconds) if at % step == 0]
        if len(found) <= _MOST:
            return found
    return []
