"""A diagram of all deliveries of a message: the state of each, and the parts of its time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from nicegui.events import GenericEventArguments

from admin.models.responses.messages import TraceView
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.states import state_chip
from admin.pages.parts.tags import link, tag
from admin.pages.tracing.waterfall import Part, drawn, legend, parts_of, waterfall
from admin.pages.viewer import Viewer

Open = Callable[[str, str], Awaitable[None]]
Drawn = tuple[str, str, list[Part]]
_MOST: Final = 30
# What is clicked on may be drawn anew, so clicks are handled around it.
_CHOSEN: Final = """(event) => {
  const button = event.target.closest("[data-attempt]");
  if (button) emit(button.closest("[data-subscription]").dataset.subscription, button.dataset.attempt);
}"""


class Picture:
    """The diagram, which can be redrawn; ``show_attempt`` opens an attempt of a subscription."""

    def __init__(self, viewer: Viewer, show_attempt: Open) -> None:
        self._viewer = viewer
        self._show_attempt = show_attempt
        with tag("section", "pier-card", aria_label=viewer.t("Timeline")) as card:
            tag("h2", "", viewer.t("Timeline"))
            self._shown = LivePart(self._draw)
        card.on("click", self._opened, js_handler=_CHOSEN)

    def update(self, trace: TraceView) -> None:
        """Draw the deliveries of a trace."""
        received = trace.received_at
        self._shown.update([(one.subscription, str(one.status), parts_of(one, received)) for one in trace.deliveries])

    async def _opened(self, event: GenericEventArguments) -> None:
        subscription, attempt = event.args
        await self._show_attempt(str(subscription), str(attempt))

    def _draw(self, deliveries: Sequence[Drawn]) -> None:
        t = self._viewer.t
        if not deliveries:
            tag("p", "pier-quiet", t("No subscription takes it."))
            return
        for name, status, parts in deliveries[:_MOST]:
            with tag("div", "pier-falls", data_subscription=name):
                link(name, f"#delivery-{name}", "pier-bidi")
                state_chip(self._viewer, status)
                if parts:
                    waterfall(self._viewer, parts, label=t("Where the time of {name} went", name=name))
        if len(deliveries) > _MOST:
            tag("p", "pier-quiet", t("{count} more are below.", count=len(deliveries) - _MOST))
        legend(self._viewer, {name for _, _, parts in deliveries for name in drawn(parts)})
