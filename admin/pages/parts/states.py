"""States of messages and deliveries, shown by word, sign and colour."""

from __future__ import annotations

from typing import Final, NamedTuple

from nicegui import ui

from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import Status
from bus.localized_text import N_


class StateStyle(NamedTuple):
    """The text, the colour and the sign of a state."""

    text: str
    tone: str
    icon: str


LOOKS: Final = {
    Status.DELIVERED: StateStyle(N_("delivered"), "good", "check_circle"),
    Status.PENDING: StateStyle(N_("pending"), "wait", "schedule"),
    Status.RETRYING: StateStyle(N_("retrying"), "warn", "autorenew"),
    Status.RESEND: StateStyle(N_("to be resent"), "warn", "replay"),
    Status.DEAD: StateStyle(N_("dead"), "bad", "cancel"),
    Status.PARKED: StateStyle(N_("parked"), "bad", "pause_circle"),
    Status.CANCELED: StateStyle(N_("canceled"), "wait", "block"),
    Status.SKIPPED: StateStyle(N_("skipped"), "wait", "redo"),
}


def state_chip(viewer: Viewer, status: str, more: str = "") -> ui.element:
    """Return a state as a chip; ``more`` follows it: “attempt 3, next 12:00:05”."""
    look = LOOKS[Status(status)]
    text = viewer.t(look.text) + (f" · {more}" if more else "")
    return chip(text, look.tone, look.icon)


def chip(text: str, tone: str = "", icon: str = "") -> ui.element:
    """Return a chip; ``tone`` is good, warn, bad, wait or empty."""
    element = tag("span", f"pier-chip {f'pier-{tone}' if tone else ''}")
    with element:
        if icon:
            ui.icon(icon, size="15px").props["aria-hidden"] = "true"
        tag("span", "", text)
    return element
