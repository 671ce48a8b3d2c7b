"""The timeline of a message, from its producer to the next attempt, with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from nicegui import ui

from admin.models.responses.messages import HopView
from admin.pages.parts.foreign_records import visible
from admin.pages.parts.tags import tag
from admin.pages.parts.times import moment, waited
from admin.pages.viewer import Viewer
from bus.localized_text import N_

_TITLES: Final = {
    "producer": N_("producer"),
    "receiver": N_("receiver"),
    "store": N_("store"),
    "broker": N_("broker"),
    "kafka": "Kafka",
    "rabbitmq": "RabbitMQ",
    "nsq": "NSQ",
    "dispatcher": N_("dispatcher"),
    "subscriber": N_("subscriber"),
    "compensator": N_("compensator"),
    "person": N_("person"),
}
_FIRST: Final = 30
_LAST: Final = 50
_GAP: Final = 1_000


def timeline(viewer: Viewer, hops: Sequence[HopView]) -> None:
    """Show the steps in the order of time."""
    t = viewer.t
    with tag("section", "pier-card"):
        tag("h2", "", t("Step by step"))
        with tag("ol", "pier-steps", tabindex="0", aria_label=t("Step by step")):
            left_out = len(hops) - _FIRST - _LAST
            if left_out <= 0:
                _steps(viewer, hops)
                return
            _steps(viewer, hops[:_FIRST])
            said = t(
                "{count} steps in between are not listed; the attempts below are all that is kept.", count=left_out
            )
            tag("li", "pier-step pier-quiet", said)
            _steps(viewer, hops[-_LAST:])


def _steps(viewer: Viewer, hops: Sequence[HopView]) -> None:
    for hop in hops:
        _step(viewer, hop)


def _step(viewer: Viewer, hop: HopView) -> None:
    with tag("li", f"pier-step{' pier-step-missing' if hop.missing else ''}"):
        with tag("span", "pier-step-time"):
            if hop.at:
                moment(viewer, hop.at, exact=True)
            else:
                tag("span", "pier-quiet", viewer.t("not known"))
            _gap(viewer, hop.ms_since_previous)
        with tag("span", "pier-step-place"):
            if hop.missing:
                ui.icon("help_outline", size="15px").props["aria-hidden"] = "true"
            place = hop.place
            tag("strong", "", viewer.t(_TITLES[place]) if place in _TITLES else place)
            if hop.missing:
                tag("span", "pier-hidden", viewer.t("missing"))
        with tag("span", "pier-step-what"):
            if hop.subscription:
                tag("span", "pier-chip pier-bidi", hop.subscription)
            tag("span", "pier-bidi", visible(viewer.say(hop.what_text or hop.what)), title=hop.node)


def _gap(viewer: Viewer, passed: int | None) -> None:
    """Show the time since the step before; a long one stands out."""
    if not passed:
        return
    tone = "pier-warn" if passed >= _GAP else "pier-quiet"
    text = f"+{waited(passed / 1000)}" if passed >= _GAP else f"{passed:+d} ms"
    tag("small", tone, text, title=viewer.t("since the step before"))
