"""The parts of the bus: its processes, their queues, brokers, what waits, and what processes that are gone left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admin.pages.calls import Refused
from admin.pages.frame import heading, page
from admin.pages.parts.anew import anew
from admin.pages.parts.clusters import clusters
from admin.pages.parts.figures import count, share, size
from admin.pages.parts.following import following
from admin.pages.parts.notes import empty, refusal
from admin.pages.parts.rates import store_rates
from admin.pages.parts.states import chip
from admin.pages.parts.tables import Column, badge, moment, number, place, table, text
from admin.pages.parts.tags import tag
from admin.pages.parts.times import waited
from admin.pages.viewer import Viewer
from bus.security.keys import Action


@page("/health", "Health")
async def health(viewer: Viewer) -> None:
    """Show them, and go on showing them."""
    t = viewer.t
    with heading(t("Health")):
        state = tag("span")
        tag("span", "pier-spacer")
        tools = tag("span", "pier-row-of")
    places = [tag("div") for _ in _SECTIONS]

    async def look() -> None:
        for place_of, draw in zip(places, _SECTIONS, strict=True):
            try:
                found = await draw[0](viewer)
            except Refused as error:
                with anew(place_of):
                    refusal(viewer, error)
                continue
            with anew(place_of):
                draw[1](viewer, found)
        with anew(state):
            await _state(viewer)

    await look()
    await clusters(viewer)
    if viewer.may(Action.CONFIGURE):
        await store_rates(viewer)
    with tools:
        following(viewer, look)


async def _state(viewer: Viewer) -> None:
    found = await viewer.api.get("/health")
    is_well = found["status"] == "ok"
    chip(viewer.t("well") if is_well else viewer.t("degraded"), "good" if is_well else "bad")


async def _processes(viewer: Viewer) -> dict[str, Any]:
    return await viewer.api.get("/processes")


def _show_processes(viewer: Viewer, found: Mapping[str, Any]) -> None:
    t = viewer.t
    columns = [
        Column("node", t("Process")),
        Column("roles", t("Roles")),
        Column("version", t("Version")),
        Column("state", t("State")),
        Column("permits", t("Permits in use"), is_number=True),
        Column("started", t("Started")),
        Column("seen", t("Heard of"), is_number=True),
        Column("configuration", t("Configuration")),
    ]
    with tag("section", "pier-card", aria_label=t("Processes")):
        tag("h2", "", t("Processes"))
        table(columns, [_process(viewer, one) for one in found["items"]], label=t("Processes"))
    _show_spools(viewer, found["items"])


def _process(viewer: Viewer, one: Mapping[str, Any]) -> dict[str, Any]:
    t, permits = viewer.t, one["permits"]
    troubles = "; ".join(f"{trouble['name']}: {trouble['detail']}" for trouble in one["troubles"])
    if not one["answers"]:
        state = {**badge(t("does not answer"), "bad", "error"), "title": one["trouble"]}
    elif troubles:
        state = {**badge(t("degraded"), "warn", "warning"), "title": troubles}
    else:
        state = badge(t("well"), "good", "check_circle")
    return {
        "key": one["owner"],
        "node": text(one["node"], title=f"{one['url']} · {one['owner']}", mono=True),
        "roles": text(", ".join(one["roles"])),
        "version": text(one["version"]),
        "state": state,
        "permits": number(f"{count(permits['in_use'])} / {count(permits['share'])}" if permits else "–"),
        "started": moment(viewer, one["started_at"]),
        "seen": number(t("{time} ago", time=waited(one["seen_seconds_ago"]))),
        "configuration": badge(t("current"), "good") if one["is_current"] else badge(t("behind"), "warn"),
    }


def _show_spools(viewer: Viewer, processes: list[Mapping[str, Any]]) -> None:
    t = viewer.t
    rows = [
        {
            "key": f"{process['owner']}/{spool['name']}",
            "spool": text(spool["name"]),
            "node": text(process["node"], mono=True),
            "records": number(count(spool["records"])),
            "bytes": number(size(spool["bytes"])),
            "used": number(share(spool["used"])),
            "oldest": moment(viewer, spool["oldest"]),
            "damaged": badge(count(spool["damaged"]), "bad", "error") if spool["damaged"] else number("0"),
        }
        for process in processes
        for spool in process["spools"]
    ]
    columns = [
        Column("spool", t("Spool")),
        Column("node", t("Process")),
        Column("records", t("Records"), is_number=True),
        Column("bytes", t("Size"), is_number=True),
        Column("used", t("Used"), is_number=True),
        Column("oldest", t("Oldest")),
        Column("damaged", t("Damaged"), is_number=True),
    ]
    with tag("section", "pier-card", aria_label=t("Spools")):
        tag("h2", "", t("Spools"))
        tag("p", "pier-quiet", t("What is safe on a disk and not yet handed on."))
        table(columns, rows, label=t("Spools"))


async def _compensations(viewer: Viewer) -> dict[str, Any]:
    return await viewer.api.get("/compensations")


def _show_compensations(viewer: Viewer, found: Mapping[str, Any]) -> None:
    t, totals = viewer.t, found["totals"]
    with tag("section", "pier-card", aria_label=t("Due work")):
        tag("h2", "", t("Due work"))
        if not found["items"]:
            empty(t("Nothing waits for another attempt"))
            return
        said = t(
            "{waiting} wait for another attempt or their time, {due} of them are due.",
            waiting=count(totals["waiting"]),
            due=count(totals["due"]),
        )
        tag("p", "pier-quiet", said)
        columns = [
            Column("subscription", t("Subscription")),
            Column("waiting", t("Waiting"), is_number=True),
            Column("due", t("Due"), is_number=True),
            Column("next", t("Next")),
        ]
        table(columns, [_due(viewer, one) for one in found["items"]], label=t("Due work"))


def _due(viewer: Viewer, one: Mapping[str, Any]) -> dict[str, Any]:
    code, name = one["destination"], one["subscription"]
    shown = f"{code} / {name}" if name else viewer.t("{code}: messages for later", code=code)
    query = f"destination={code}" + (f"&subscription={name}" if name else "")
    return {
        "key": f"{code}/{name}",
        "subscription": place(shown, f"/admin/failures?{query}"),
        "waiting": number(count(one["waiting"])),
        "due": number(count(one["due"])),
        "next": moment(viewer, one["next_due"]),
    }


async def _orphans(viewer: Viewer) -> dict[str, Any]:
    return await viewer.api.get("/orphans")


def _show_orphans(viewer: Viewer, found: Mapping[str, Any]) -> None:
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("Spools of processes that are gone")):
        tag("h2", "", t("Spools of processes that are gone"))
        if not found["watched"]:
            empty(t("Nobody looks for them"), t("Run a sweeper on each machine: bus run sweeper."))
            return
        if not found["items"]:
            watched = ", ".join(f"{one['node']}: {', '.join(one['directories'])}" for one in found["watched"])
            empty(t("None"), t("Watched: {places}", places=watched))
            return
        columns = [
            Column("directory", t("Directory")),
            Column("node", t("Machine")),
            Column("records", t("Records"), is_number=True),
            Column("bytes", t("Size"), is_number=True),
            Column("touched", t("Last change")),
            Column("trouble", t("Why it is still there")),
        ]
        table(columns, [_orphan(viewer, one) for one in found["items"]], label=t("Spools of processes that are gone"))


def _orphan(viewer: Viewer, one: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "key": f"{one['node']}:{one['directory']}",
        "directory": text(one["directory"], mono=True),
        "node": text(one["node"], mono=True),
        "records": number(count(one["records"])),
        "bytes": number(size(one["bytes"])),
        "touched": moment(viewer, one["touched_at"]),
        "trouble": text(one["trouble"] or viewer.t("its turn comes"), cut=True),
    }


_SECTIONS = ((_processes, _show_processes), (_compensations, _show_compensations), (_orphans, _show_orphans))
