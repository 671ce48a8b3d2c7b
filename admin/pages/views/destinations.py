"""Destinations: all of them, and one with its subscriptions."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui

from admin.models.responses.base import Listing
from admin.models.responses.conditions import ConditionView
from admin.models.responses.configuration import DestinationActionsView, DestinationView, SubscriptionView
from admin.models.responses.stats import NO_FIGURES, FiguresView, StatsView
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import button, to
from admin.pages.parts.chain import ChainPicture
from admin.pages.parts.conditions import condition_badge, conditions_of, worst
from admin.pages.parts.dialogs import confirmed
from admin.pages.parts.figures import count, figures, pairs, share, size
from admin.pages.parts.first_message import first_message
from admin.pages.parts.history import history
from admin.pages.parts.notes import empty, note
from admin.pages.parts.orders import ORDERINGS
from admin.pages.parts.spans import SPANS, span_links, span_of
from admin.pages.parts.states import chip
from admin.pages.parts.tables import Column, Row, number, place, table, text
from admin.pages.parts.tags import tag
from admin.pages.parts.times import took
from admin.pages.parts.transports import transports
from admin.pages.parts.volume import volume_charts
from admin.pages.viewer import Viewer
from bus.domain.destination import Ordering
from bus.domain.health.conditions import State
from bus.localized_text import N_
from bus.security.keys import Action


@page("/destinations", N_("Destinations"))
async def destinations(viewer: Viewer) -> None:
    """Show all destinations, those with the most going on first."""
    t = viewer.t
    with heading(t("Destinations")):
        tag("span", "pier-spacer")
        if viewer.may(Action.CONFIGURE):
            to(t("New destination"), "/admin/new-destination", kind="primary", icon="add")
    items = (await viewer.api.get("/destinations", Listing[DestinationView])).items
    if not items:
        empty(
            t("There is no destination yet"),
            t("A destination is what producers send to, and what subscriptions take from."),
            action=(t("Make the first one"), "/admin/new-destination") if viewer.may(Action.CONFIGURE) else None,
        )
        return
    figures_of = await _figures_by(viewer, "destination", {})
    tag("p", "pier-quiet", t("Figures of the last hour; {count} destinations.", count=len(items)))
    states: dict[str, list[State]] = {item.code: [State.PAUSED] if item.paused else [] for item in items}
    for (code, _), one in (await conditions_of(viewer)).items():
        states.setdefault(code, []).append(one.state)
    rows = [_row(viewer, item, figures_of.get((item.code,), NO_FIGURES), worst(states[item.code])) for item in items]
    columns = [
        Column("code", t("Code")),
        Column("transport", t("Transport")),
        Column("accepted", t("Accepted"), is_number=True),
        Column("success", t("Success"), is_number=True),
        Column("p99", t("p99"), is_number=True),
        Column("state", t("State")),
        Column("retention", t("Kept"), is_number=True),
    ]
    table(columns, rows, label=t("Destinations"))


def _row(viewer: Viewer, item: DestinationView, found: FiguresView, state: State | None) -> Row:
    code = item.code
    return {
        "key": code,
        "code": place(code, f"/admin/destinations/{code}", mono=True),
        "transport": text(item.transport),
        "accepted": number(count(found.accepted)),
        "success": number(share(found.success_rate)),
        "p99": number(took(found.p99_ms)),
        "state": condition_badge(viewer, state),
        "retention": number(viewer.t("{count} days", count=item.retention_days)),
    }


async def _figures_by(viewer: Viewer, by: str, query: Mapping[str, str]) -> dict[tuple[str, ...], FiguresView]:
    """Return the figures of the last hour by the names of their series."""
    found = await viewer.api.get("/stats", StatsView, {"by": by, "limit": 500, **query})
    names = [tuple(name for name in (one.destination, one.subscription) if name) for one in found.series]
    return {name: one.totals for name, one in zip(names, found.series, strict=True)}


@page("/destinations/{code}", N_("Destination"))
async def destination(viewer: Viewer) -> None:
    """Show one destination."""
    code = viewer.place["code"]
    found = await viewer.api.get(f"/destinations/{code}", DestinationView)
    subscriptions = (await viewer.api.get(f"/destinations/{code}/subscriptions", Listing[SubscriptionView])).items
    actions = await viewer.api.get(f"/destinations/{code}/actions", DestinationActionsView)
    _head(viewer, found, actions)
    if found.paused:
        _tell_paused(viewer, found)
    if found.ordering is Ordering.STRICT:
        await ChainPicture(viewer, code).follow()
    has_any = await _volume(viewer, code)
    await _subscriptions(viewer, code, subscriptions)
    first_message(viewer, code, is_open=not has_any)
    with tag("div", "pier-grid q-mb-md"):
        _settings(viewer, found)
        await transports(viewer, code)
    await history(viewer, f"destinations/{code}")


def _head(viewer: Viewer, found: DestinationView, actions: DestinationActionsView) -> None:
    t, code = viewer.t, found.code
    with heading(code):
        chip(found.transport)
        if found.paused:
            chip(t("paused"), "warn", "pause")
        tag("span", "pier-spacer")
        to(t("Messages"), f"/admin/find?destination={code}", icon="search")
        to(t("Failures"), f"/admin/failures?destination={code}", icon="error_outline")
        if viewer.may(Action.CONFIGURE, code):
            to(t("Edit"), f"/admin/destinations/{code}/edit", icon="edit")
            _pause_button(viewer, found, viewer.say(actions.pause.why_text or actions.pause.why))
            _remove_button(viewer, code, viewer.say(actions.remove.why_text or actions.remove.why))


def _pause_button(viewer: Viewer, found: DestinationView, why: str) -> None:
    t, code, paused = viewer.t, found.code, found.paused

    async def switch() -> None:
        if not paused and not await confirmed(
            viewer,
            t("Pause {code}?", code=code),
            t("Producers are answered as before, and what they send is held until it is resumed. Nothing is lost."),
            action=t("Pause"),
            danger=False,
        ):
            return
        await viewer.api.patch(f"/destinations/{code}", {"paused": not paused})
        ui.navigate.reload()

    button(
        t("Resume") if paused else t("Pause"), switch, icon="play_arrow" if paused else "pause", disabled_because=why
    )


def _remove_button(viewer: Viewer, code: str, why: str) -> None:
    t = viewer.t

    async def remove() -> None:
        if not await confirmed(
            viewer,
            t("Remove {code}?", code=code),
            t("Producers that send to it are refused from then on. Its messages can be found until their retention."),
            action=t("Remove the destination"),
            typed=code,
        ):
            return
        await viewer.api.delete(f"/destinations/{code}")
        ui.navigate.to("/destinations")

    button(t("Remove"), remove, icon="delete_outline", disabled_because=why)


def _tell_paused(viewer: Viewer, found: DestinationView) -> None:
    t = viewer.t
    note(
        t("This destination is paused"),
        t("What producers send is accepted and held; it is delivered once {code} is resumed.", code=found.code),
        tone="warn",
    )


async def _volume(viewer: Viewer, code: str) -> bool:
    """Show the volume of a destination; return whether it accepted any message."""
    t = viewer.t
    span = span_of(viewer)
    with tag("section", "pier-card", aria_label=t("What went on")):
        with tag("div", "pier-row-of"):
            tag("h2", "", t("What went on"))
            tag("span", "pier-spacer")
            span_links(viewer, f"/admin/destinations/{code}", SPANS)
        stats = await viewer.api.get("/stats", StatsView, {"destination": code, "from": span.since(viewer)})
        _totals(viewer, stats.totals)
        volume_charts(viewer).draw(stats)
    return bool(stats.totals.accepted)


def _totals(viewer: Viewer, totals: FiguresView) -> None:
    t, ended = viewer.t, totals.deliveries
    figures(
        [
            (t("accepted"), count(totals.accepted), ""),
            (t("delivered"), count(ended.get("delivered", 0)), ""),
            (t("dead"), count(ended.get("dead", 0)), ""),
            (t("success of attempts"), share(totals.success_rate), ""),
            (t("p50 / p99 latency"), took(totals.p50_ms), f"/ {took(totals.p99_ms)}"),
        ]
    )


async def _subscriptions(viewer: Viewer, code: str, items: list[SubscriptionView]) -> None:
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("Subscriptions")):
        with tag("div", "pier-row-of q-mb-sm"):
            tag("h2", "", t("Subscriptions"))
            tag("span", "pier-spacer")
            if viewer.may(Action.CONFIGURE, code):
                to(t("New subscription"), f"/admin/destinations/{code}/new-subscription", icon="add")
        if not items:
            empty(
                t("Nobody takes these messages yet"),
                t("Messages sent now are kept as skipped, and can be resent to a later subscription."),
            )
            return
        found = await _figures_by(viewer, "subscription", {"destination": code})
        columns = [
            Column("name", t("Name")),
            Column("url", t("URL")),
            Column("delivered", t("Delivered, last hour"), is_number=True),
            Column("success", t("Success"), is_number=True),
            Column("p99", t("p99"), is_number=True),
            Column("permits", t("At once"), is_number=True),
            Column("state", t("State")),
        ]
        states = await conditions_of(viewer, code)
        rows = [
            _subscription_row(viewer, code, item, found.get(key, NO_FIGURES), states.get(key))
            for item in items
            for key in [(code, item.name)]
        ]
        table(columns, rows, label=t("Subscriptions"))


def _subscription_row(
    viewer: Viewer, code: str, item: SubscriptionView, found: FiguresView, condition: ConditionView | None
) -> Row:
    name, why = item.name, (condition.why_text or condition.why) if condition is not None else ""
    return {
        "key": name,
        "name": place(name, f"/admin/destinations/{code}/subscriptions/{name}", mono=True),
        "url": text(item.url, mono=True, cut=True),
        "delivered": number(count(found.deliveries.get("delivered", 0))),
        "success": number(share(found.success_rate)),
        "p99": number(took(found.p99_ms)),
        "permits": number(count(item.max_concurrency)),
        "state": {
            **condition_badge(viewer, condition.state if condition is not None else State.QUIET),
            "title": viewer.say(why) or None,
        },
    }


def _settings(viewer: Viewer, found: DestinationView) -> None:
    t = viewer.t
    rate = found.store_rate
    with tag("section", "pier-card", aria_label=t("Settings")):
        tag("h2", "", t("Settings"))
        pairs(
            [
                (t("Transport"), found.transport),
                (t("Order"), t(ORDERINGS[found.ordering])),
                (t("Kept"), t("{count} days", count=found.retention_days)),
                (t("Largest message"), size(found.max_bytes)),
                (t("Store writes a second"), count(rate) if rate else t("no limit")),
                (t("Share of local queues"), share(found.spool_share)),
                (t("Messages a second, each receiver"), f"{found.rate:g}" if found.rate else t("no limit")),
                (t("Traced on NSQ"), t("yes") if found.traced else t("no")),
                (t("Unchecked keys"), t("refused") if found.refuse_unchecked_keys else t("accepted")),
                (t("Owner"), found.owner or t("nobody")),
                (t("Fewest in ten minutes"), count(found.pv_min) if found.pv_min else t("no limit")),
                (t("Most in ten minutes"), count(found.pv_max) if found.pv_max else t("no limit")),
                (t("Masked"), ", ".join(found.mask) or t("nothing")),
            ]
        )
