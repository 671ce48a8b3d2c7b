"""Charts of messages and deliveries over time."""

from __future__ import annotations

from admin.models.responses.stats import StatsView
from admin.pages.parts.charts import Chart, Line
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


class VolumeCharts:
    """Messages and latency of one set of figures, side by side."""

    def __init__(self, viewer: Viewer, *, has_accepted: bool) -> None:
        t = viewer.t
        accepted = [Line(t("accepted"), lambda point: point.accepted, "in", is_area=True)] if has_accepted else []
        with tag("div", "pier-grid"):
            self._messages = Chart(
                viewer,
                t("Messages"),
                [
                    *accepted,
                    Line(t("delivered"), lambda point: point.deliveries.get("delivered", 0), "good"),
                    Line(t("failed attempts"), lambda point: point.failed_attempts, "bad"),
                ],
            )
            self._latency = Chart(
                viewer,
                t("From accepted to delivered"),
                [
                    Line(t("p50"), lambda point: point.p50_ms, "in", nothing=None),
                    Line(t("p99"), lambda point: point.p99_ms, "warn", nothing=None),
                ],
                is_of_times=True,
            )

    def draw(self, stats: StatsView) -> None:
        """Draw what ``/stats`` answered."""
        points = stats.series[0].points if stats.series else []
        for chart in (self._messages, self._latency):
            chart.draw(stats, points)


def volume_charts(viewer: Viewer, *, has_accepted: bool = True) -> VolumeCharts:
    """Return the charts, to be redrawn with ``draw``; those of a subscription lack accepted messages."""
    return VolumeCharts(viewer, has_accepted=has_accepted)
