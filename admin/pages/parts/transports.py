"""The transports of a destination: the one in use, and those left by a switch, with what still waits there."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.models.responses.configuration import TransportLineView, TransportsView, TransportView
from admin.pages.parts.figures import count
from admin.pages.parts.following import patient
from admin.pages.parts.states import chip
from admin.pages.parts.tables import Column, Row, moment, number, table, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.localized_text import N_

_TITLES: Final = {"present": N_("in use"), "former": N_("being left"), "fallback": N_("if the other is away")}
_EVERY: Final = 2.0


async def transports(viewer: Viewer, code: str) -> None:
    """Show the transports of a destination; while it switches, update them regularly."""
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("Transports")):
        tag("h2", "", t("Transports"))
        place = tag("div")

    async def look() -> None:
        found = await viewer.api.get(f"/destinations/{code}/transports", TransportsView)
        place.clear()
        with place:
            _show(viewer, found)
        timer.active = found.complete is not True

    timer = ui.timer(_EVERY, patient(viewer, look), active=False)
    await look()


def _show(viewer: Viewer, found: TransportsView) -> None:
    t, receivers = viewer.t, found.receivers
    for transport in found.items:
        _transport(viewer, transport)
    if found.complete:
        return
    said = t(
        "{confirmed} of {alive} receivers use the new transport.",
        confirmed=receivers.confirmed,
        alive=receivers.alive,
    )
    with tag("p", "pier-row-of", role="status"):
        chip(t("going over"), "warn", "autorenew") if found.complete is False else chip(t("not known"), "wait", "help")
        tag("span", "", said)


def _transport(viewer: Viewer, transport: TransportView) -> None:
    t = viewer.t
    with tag("div", "q-mb-sm"):
        with tag("div", "pier-row-of"):
            tag("strong", "", transport.transport)
            tag("span", "pier-quiet", t(_TITLES[transport.role]))
            if transport.role == "former":
                chip(t("drained"), "good", "check") if transport.drained else chip(t("draining"), "warn", "autorenew")
                tag("span", "pier-quiet", t("attached until {time}", time=viewer.time(transport.attached_until)))
            if transport.trouble:
                chip(viewer.say(transport.trouble_text or transport.trouble), "bad", "error")
        waiting = [line for line in transport.subscriptions if line.waiting != 0]
        if waiting:
            columns = [
                Column("name", t("Subscription")),
                Column("waiting", t("Waiting"), is_number=True),
                Column("oldest", t("Oldest")),
            ]
            table(
                columns,
                [_line(viewer, line) for line in waiting],
                label=t("Waiting on {transport}", transport=transport.transport),
            )


def _line(viewer: Viewer, line: TransportLineView) -> Row:
    waiting = viewer.t("not known") if line.waiting is None else count(line.waiting)
    return {
        "key": line.subscription,
        "name": text(line.subscription),
        "waiting": number(waiting),
        "oldest": moment(viewer, line.oldest),
    }
