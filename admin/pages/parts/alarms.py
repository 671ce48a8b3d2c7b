"""The list of incidents, the worst first, each with the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from admin.models.responses.overview import AlarmView
from admin.pages.parts.buttons import button
from admin.pages.parts.cures import show_cures
from admin.pages.parts.states import chip
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import moment
from admin.pages.viewer import Viewer
from bus.localized_text import N_

_FIRST: Final = 3
_SHOWN: Final = 50
_ALL: Final = "*"
"""In the place of a cause: the causes behind the first ones."""
_TITLES: Final = {"critical": N_("critical"), "warning": N_("warning"), "info": N_("note")}
_LOOKS: Final = {"critical": ("bad", "error"), "warning": ("warn", "warning"), "info": ("wait", "info")}
# The beginning of an API path, and the page that shows what is there.
_PLACES: Final = (
    ("messages?", "find?"),
    ("processes", "health"),
    ("orphans", "health"),
    ("clusters", "health"),
    ("keys", "access"),
)


def place_of(path: str) -> str:
    """Return the page of a path below ``/api/v1``."""
    for api, shown in _PLACES:
        if path.startswith(api):
            return f"/admin/{shown}{path.removeprefix(api)}" if api.endswith("?") else f"/admin/{shown}"
    return f"/admin/{path}"


class Alarms:
    """A list of alarms, redrawn when it has changed: an entry for each cause, of which the first few are shown."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._shown: Sequence[AlarmView] | None = None
        self._unfolded: set[str] = set()
        self._list = tag("section", "", aria_label=viewer.t("Alarms"), aria_live="polite")

    def draw(self, alarms: Sequence[AlarmView]) -> None:
        """Draw it."""
        if alarms == self._shown:
            return
        self._shown = alarms
        t = self._viewer.t
        self._list.clear()
        with self._list:
            if not alarms:
                with tag("p", "pier-row-of"):
                    chip(t("All is well: nothing needs a person."), "good", "check_circle")
                return
            groups = _by_cause(alarms)
            shown = groups[: _SHOWN if _ALL in self._unfolded else _FIRST]
            with tag("ul", "pier-alarms"):
                for group in shown:
                    self._draw_group(group)
            self._draw_rest(len(groups), len(shown))

    def _draw_group(self, group: Sequence[AlarmView]) -> None:
        first, *others = group
        is_unfolded = first.cause in self._unfolded
        self._draw_one(first, others=0 if is_unfolded else len(others))
        for alarm in others[:_SHOWN] if is_unfolded else ():
            self._draw_one(alarm)

    def _draw_rest(self, count: int, shown: int) -> None:
        t = self._viewer.t
        if count == shown:
            return
        if _ALL in self._unfolded:
            tag("p", "pier-quiet", t("and {count} more", count=count - shown))
        else:
            button(t("{count} more causes", count=count - shown), lambda: self._unfold(_ALL), icon="expand_more")

    def _unfold(self, cause: str) -> None:
        self._unfolded.add(cause)
        alarms, self._shown = self._shown, None
        self.draw(alarms or ())

    def _draw_one(self, alarm: AlarmView, *, others: int = 0) -> None:
        viewer = self._viewer
        tone, icon = _LOOKS[alarm.severity]
        with tag("li", f"pier-{tone}"):
            ui.icon(icon, size="20px").props["aria-hidden"] = "true"
            with tag("div"):
                tag("span", "pier-hidden", f"{viewer.t(_TITLES[alarm.severity])}: ")
                link(viewer.say(alarm.what_text or alarm.what), place_of(alarm.link))
                with tag("p", "pier-quiet"):
                    tag("span", "", viewer.say(alarm.next_step_text or alarm.next_step))
                    if alarm.since:
                        tag("span", "", " · " + viewer.t("since") + " ")
                        moment(viewer, alarm.since)
                show_cures(viewer, alarm.cures)
                if others:
                    told = viewer.t("{count} more from this cause", count=others)
                    button(told, lambda: self._unfold(alarm.cause), icon="expand_more")


def _by_cause(alarms: Sequence[AlarmView]) -> list[list[AlarmView]]:
    """Return what has one cause together, in the order of the first of each."""
    groups: dict[str, list[AlarmView]] = {}
    for alarm in alarms:
        groups.setdefault(alarm.cause, []).append(alarm)
    return list(groups.values())
