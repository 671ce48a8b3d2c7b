"""The page of the health of the bus: processes, queues, brokers, scheduled retries and orphaned queues."""

from __future__ import annotations

from typing import Final, Protocol

from admin.models.responses.operations import (
    CompensationsView,
    DueView,
    FoundOrphanView,
    HealthView,
    OrphansView,
    ProcessesView,
    ProcessView,
)
from admin.models.responses.overview import SpoolView
from admin.pages.api_error import ApiError
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import to
from admin.pages.parts.clusters import clusters
from admin.pages.parts.figures import count, share, size
from admin.pages.parts.following import following
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.rates import store_rates
from admin.pages.parts.sections import Section
from admin.pages.parts.states import chip
from admin.pages.parts.tables import Column, Row, badge, moment, number, place, text
from admin.pages.parts.tags import tag
from admin.pages.parts.times import waited
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action

_SILENT: Final = 5.0  # seconds; a process reports its state each second


@page("/health", N_("Health"))
async def health(viewer: Viewer) -> None:
    """Show the parts, and update them regularly."""
    t = viewer.t
    with heading(t("Health")):
        state = LivePart(lambda is_well: _state(viewer, is_well=is_well))
        tag("span", "pier-spacer")
        tools = tag("span", "pier-row-of")
    sections: list[_Part] = [_Processes(viewer), _ScheduledRetries(viewer), _Orphans(viewer)]

    async def look() -> None:
        for section in sections:
            try:
                await section.look()
            except ApiError as error:
                section.refuse(error)
        state.update((await viewer.api.get("/health", HealthView)).status == "ok")

    await look()
    await clusters(viewer)
    if viewer.may(Action.CONFIGURE):
        await store_rates(viewer)
    with tools:
        following(viewer, look)


def _state(viewer: Viewer, *, is_well: bool) -> None:
    chip(viewer.t("well") if is_well else viewer.t("degraded"), "good" if is_well else "bad")


class _Part(Protocol):
    """A part of the page that reads the API, and shows its answer or its error."""

    async def look(self) -> None:
        """Ask the API, and show its answer."""
        ...

    def refuse(self, error: ApiError) -> None:
        """Show why the API has nothing."""
        ...


class _Processes:
    """The processes, and the queues of each."""

    def __init__(self, viewer: Viewer) -> None:
        t = viewer.t
        self._viewer = viewer
        self._moves = LivePart(self._lead)
        self._processes = Section(
            viewer,
            t("Processes"),
            [
                Column("node", t("Process")),
                Column("roles", t("Roles")),
                Column("version", t("Version")),
                Column("state", t("State")),
                Column("permits", t("Permits in use"), is_number=True),
                Column("started", t("Started")),
                Column("seen", t("Heard of"), is_number=True),
                Column("configuration", t("Configuration")),
            ],
        )
        self._spools = Section(
            viewer,
            t("Spools"),
            [
                Column("spool", t("Spool")),
                Column("node", t("Process")),
                Column("records", t("Records"), is_number=True),
                Column("bytes", t("Size"), is_number=True),
                Column("used", t("Used"), is_number=True),
                Column("oldest", t("Oldest")),
                Column("damaged", t("Damaged"), is_number=True),
            ],
        )

    async def look(self) -> None:
        """Ask the API, and show its answer."""
        found = await self._viewer.api.get("/processes", ProcessesView)
        viewer = self._viewer
        self._processes.show([_process(viewer, one) for one in found.items])
        self._moves.update(any("lookup" in one.roles for one in found.items))
        spools = [_spool(viewer, process, spool) for process in found.items for spool in process.spools]
        self._spools.show(spools, said=viewer.t("What is safe on a disk and not yet handed on."))

    def refuse(self, error: ApiError) -> None:
        """Show why the API has nothing."""
        self._processes.refuse(error)

    def _lead(self, has_lookup: bool) -> None:
        """Lead to what lookup proxies do, where there is one."""
        if has_lookup:
            to(self._viewer.t("Topics that move between clusters of NSQ"), "/admin/moves", icon="swap_horiz")


def _process(viewer: Viewer, one: ProcessView) -> Row:
    t, permits = viewer.t, one.permits
    troubles = "; ".join(f"{part.name}: {viewer.say(part.detail_text or part.detail)}" for part in one.troubles)
    if not one.answers:
        state = {**badge(t("does not answer"), "bad", "error"), "title": viewer.say(one.trouble_text or one.trouble)}
    elif troubles:
        state = {**badge(t("degraded"), "warn", "warning"), "title": troubles}
    else:
        state = badge(t("well"), "good", "check_circle")
    return {
        "key": one.owner,
        "node": text(one.node, title=f"{one.url} · {one.owner}", mono=True),
        "roles": text(", ".join(one.roles)),
        "version": text(one.version),
        "state": state,
        "permits": number(f"{count(permits.in_use)} / {count(permits.share)}" if permits else "–"),
        "started": moment(viewer, one.started_at),
        "seen": number(_heard(viewer, one.seen_seconds_ago)),
        "configuration": badge(t("current"), "good") if one.is_current else badge(t("behind"), "warn"),
    }


def _heard(viewer: Viewer, seconds: float) -> str:
    return viewer.t("now") if seconds < _SILENT else viewer.t("{time} ago", time=waited(seconds))


def _spool(viewer: Viewer, process: ProcessView, spool: SpoolView) -> Row:
    return {
        "key": f"{process.owner}/{spool.name}",
        "spool": text(spool.name),
        "node": text(process.node, mono=True),
        "records": number(count(spool.records)),
        "bytes": number(size(spool.bytes)),
        "used": number(share(spool.used)),
        "oldest": moment(viewer, spool.oldest),
        "damaged": badge(count(spool.damaged), "bad", "error") if spool.damaged else number("0"),
    }


class _ScheduledRetries:
    """Deliveries that wait for another attempt."""

    def __init__(self, viewer: Viewer) -> None:
        t = viewer.t
        self._viewer = viewer
        columns = [
            Column("subscription", t("Subscription")),
            Column("waiting", t("Waiting"), is_number=True),
            Column("due", t("Due"), is_number=True),
            Column("next", t("Next")),
        ]
        self._section = Section(viewer, t("Due work"), columns)

    async def look(self) -> None:
        """Ask the API, and show its answer."""
        found = await self._viewer.api.get("/compensations", CompensationsView)
        viewer, totals = self._viewer, found.totals
        said = viewer.t(
            "{waiting} wait for another attempt or their time, {due} of them are due.",
            waiting=count(totals.waiting),
            due=count(totals.due),
        )
        nothing = (viewer.t("Nothing waits for another attempt"), "")
        self._section.show([_due(viewer, one) for one in found.items], said=said, nothing=nothing)

    def refuse(self, error: ApiError) -> None:
        """Show why the API has nothing."""
        self._section.refuse(error)


def _due(viewer: Viewer, one: DueView) -> Row:
    code, name = one.destination, one.subscription
    shown = f"{code} / {name}" if name else viewer.t("{code}: messages for later", code=code)
    query = f"destination={code}" + (f"&subscription={name}" if name else "")
    return {
        "key": f"{code}/{name}",
        "subscription": place(shown, f"/admin/failures?{query}"),
        "waiting": number(count(one.waiting)),
        "due": number(count(one.due)),
        "next": moment(viewer, one.next_due),
    }


class _Orphans:
    """Queues that ended processes left on disks."""

    def __init__(self, viewer: Viewer) -> None:
        t = viewer.t
        self._viewer = viewer
        columns = [
            Column("directory", t("Directory")),
            Column("node", t("Machine")),
            Column("records", t("Records"), is_number=True),
            Column("bytes", t("Size"), is_number=True),
            Column("touched", t("Last change")),
            Column("trouble", t("Why it is still there")),
        ]
        self._section = Section(viewer, t("Spools of processes that are gone"), columns)

    async def look(self) -> None:
        """Ask the API, and show its answer."""
        found = await self._viewer.api.get("/orphans", OrphansView)
        viewer, t = self._viewer, self._viewer.t
        watched = ", ".join(f"{one.node}: {', '.join(one.directories)}" for one in found.watched)
        nothing = (t("None"), t("Watched: {places}", places=watched))
        if not watched:
            nothing = (t("Nobody looks for them"), t("Run a sweeper on each machine: bus run sweeper."))
        self._section.show([_orphan(viewer, one) for one in found.items], nothing=nothing)

    def refuse(self, error: ApiError) -> None:
        """Show why the API has nothing."""
        self._section.refuse(error)


def _orphan(viewer: Viewer, one: FoundOrphanView) -> Row:
    return {
        "key": f"{one.node}:{one.directory}",
        "directory": text(one.directory, mono=True),
        "node": text(one.node, mono=True),
        "records": number(count(one.records)),
        "bytes": number(size(one.bytes)),
        "touched": moment(viewer, one.touched_at),
        "trouble": text(one.trouble or viewer.t("its turn comes"), cut=True),
    }
