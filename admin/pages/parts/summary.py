"""The summary of the messages of a search, by attribute and by time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from nicegui import ui
from nicegui.events import EChartPointClickEventArguments

from admin.models.responses.summaries import PeriodView, SharedView, SummaryView
from admin.pages.api_error import ApiError
from admin.pages.parts.charts import COLOURS
from admin.pages.parts.figures import count
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.notes import refusal
from admin.pages.parts.states import LOOKS
from admin.pages.parts.tags import link, tag
from admin.pages.parts.ticks import round_ticks
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import WORST_FIRST, Status
from bus.domain.times import SECOND, format_time, parse_time
from bus.localized_text import N_

Href = Callable[[Mapping[str, str]], str]
_AFTER: Final = 0.05
_HEIGHT: Final = "110px"
_TITLES: Final = {
    "destination": N_("Destination"),
    "subscription": N_("Subscription"),
    "signature": N_("Failure"),
    "node": N_("Node"),
    "source": N_("Source"),
    "key": N_("Key"),
    "content_type": N_("Content type"),
}


class SummaryPart:
    """The summary of one search, which is read once the page is there.

    Parameters
    ----------
    asked
        The search, as the API takes it.
    href
        Returns the URL of the page that shows a narrower search.
    is_open
        Whether what they share is shown at once.
    """

    def __init__(self, viewer: Viewer, asked: Mapping[str, str], href: Href, *, is_open: bool) -> None:
        self._viewer = viewer
        self._asked = asked
        self._href = href
        self._is_open = is_open
        with tag("section", "pier-card pier-summary", aria_label=viewer.t("When, and what they share")) as self._card:
            tag("p", "pier-quiet", viewer.t("Counting…"))
        ui.timer(_AFTER, self._load, once=True)

    async def _load(self) -> None:
        found: SummaryView | ApiError
        try:
            found = await self._viewer.api.get("/messages/summary", SummaryView, self._asked)
        except ApiError as refused:
            found = refused
        self._card.clear()
        with self._card:
            if isinstance(found, ApiError):
                refusal(self._viewer, found)
            else:
                self._show(found)

    def _show(self, found: SummaryView) -> None:
        self._reach(found)
        if found.periods:
            self._chart(found)
            self._table(found)
        if found.shared:
            with tag("details", "pier-more", open=True if self._is_open else None):
                tag("summary", "", self._viewer.t("What they share"))
                with tag("div", "pier-shared"):
                    for shared in found.shared:
                        self._shared(shared, found.messages)

    def _reach(self, found: SummaryView) -> None:
        t, searched = self._viewer.t, found.searched
        if searched.complete:
            said = t("{count} messages", count=count(found.messages))
        else:
            since = self._viewer.time(searched.since)
            said = t("the newest {count} messages, back to {since}", count=count(found.messages), since=since)
        tag("p", "pier-quiet", said, role="status")

    def _chart(self, found: SummaryView) -> None:
        viewer = self._viewer
        periods = viewer.periods(found.since, found.until, found.step_seconds)
        by_start = {one.at: one.states for one in found.periods}

        async def narrow(event: EChartPointClickEventArguments) -> None:
            ui.navigate.to(self._narrowed(periods[event.data_index][0], found.step_seconds))

        chart = ui.echart(_options([label for _, label in periods]), on_point_click=narrow, renderer="svg")
        chart.style(f"height: {_HEIGHT}").props["role"] = "img"
        chart.props["aria-label"] = viewer.t("Messages by when they were made")
        chart.options["xAxis"]["axisLabel"]["customValues"] = round_ticks(viewer, [at for at, _ in periods])
        chart.options["series"] = [
            _series(viewer, status, [by_start.get(at, {}).get(status, 0) for at, _ in periods])
            for status in _present(found.periods)
        ]

    def _table(self, found: SummaryView) -> None:
        """Show the periods as a list, for users who cannot see or point at the chart."""
        viewer = self._viewer
        with tag("details", "pier-more"):
            tag("summary", "", viewer.t("By time, as a list"))
            with tag("ul", "pier-list"):
                for one in found.periods:
                    states = ", ".join(f"{viewer.t(LOOKS[name].text)} {count(n)}" for name, n in one.states.items())
                    with tag("li"):
                        link(viewer.time(one.at), self._narrowed(one.at, found.step_seconds))
                        tag("span", "", f" {states}")

    def _narrowed(self, start: str, step_seconds: int) -> str:
        """Return the URL of the messages of one period, as far as they are among those of the search."""
        begin = parse_time(start)
        end = begin + step_seconds * SECOND
        if "from" in self._asked:
            begin = max(begin, parse_time(self._asked["from"]))
        if "to" in self._asked:
            end = min(end, parse_time(self._asked["to"]))
        return self._href({**self._asked, "from": format_time(begin), "to": format_time(end)})

    def _shared(self, shared: SharedView, messages: int) -> None:
        t = self._viewer.t
        title = t("Header {name}", name=shared.name) if shared.name else t(_TITLES[shared.of])
        with tag("div", "pier-share"):
            tag("h3", "pier-bidi", title)
            with tag("ul"):
                for one in shared.values:
                    said = visible(one.value)
                    with tag("li"):
                        tag("span", "pier-share-bar", style=f"--share: {one.messages / max(1, messages):.3f}")
                        if one.filter is not None:
                            link(said or "–", self._href(one.filter), "pier-bidi pier-cut", title=said)
                        else:
                            tag("span", "pier-bidi pier-cut", said or "–", title=said)
                        tag("span", "pier-number", count(one.messages))
                if shared.others:
                    with tag("li", "pier-quiet"):
                        tag("span", "", t("others"))
                        tag("span", "pier-number", count(shared.others))


def _present(periods: Iterable[PeriodView]) -> list[Status]:
    """Return the states that there are, the mildest first, so that the worst is drawn on top."""
    found = {status for one in periods for status in one.states}
    return [status for status in reversed(WORST_FIRST) if status in found]


def _options(labels: list[str]) -> dict[str, object]:
    quiet = COLOURS["wait"]
    return {
        "animation": False,
        "grid": {"left": 8, "right": 12, "top": 8, "bottom": 4, "containLabel": True},
        "tooltip": {"trigger": "axis", "confine": True, "axisPointer": {"type": "shadow"}},
        "xAxis": {
            "type": "category",
            "data": labels,
            "axisLabel": {"color": quiet, "hideOverlap": True},
            "axisTick": {"show": False},
        },
        "yAxis": {
            "type": "value",
            "minInterval": 1,
            "splitNumber": 2,
            "axisLabel": {"color": quiet},
            "splitLine": {"lineStyle": {"color": "rgba(139,150,171,0.25)"}},
        },
        "series": [],
    }


def _series(viewer: Viewer, status: Status, values: list[int]) -> dict[str, object]:
    look = LOOKS[status]
    return {
        "name": viewer.t(look.text),
        "type": "bar",
        "stack": "all",
        "barCategoryGap": "12%",
        "barMaxWidth": 28,
        "cursor": "pointer",
        "color": COLOURS[look.tone],
        "data": values,
    }
