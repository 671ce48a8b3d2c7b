"""The page of one subscription: its condition, and the actions on it."""

from __future__ import annotations

import msgspec
from nicegui import ui

from admin.models.responses.configuration import DestinationView, SubscriptionActionsView, SubscriptionView
from admin.models.responses.stats import NO_FIGURES, StatsView
from admin.pages.frame import heading, page
from admin.pages.parts.activity import ActivityPart
from admin.pages.parts.buttons import button, to
from admin.pages.parts.conditions import ConditionCard
from admin.pages.parts.copying import copied
from admin.pages.parts.dialogs import confirmed
from admin.pages.parts.figures import count, figures, pairs, share
from admin.pages.parts.held_keys import HeldKeys
from admin.pages.parts.history import history
from admin.pages.parts.orders import ON_FAILURE
from admin.pages.parts.sample import sample
from admin.pages.parts.secret_shown_once import kept
from admin.pages.parts.selections import as_query
from admin.pages.parts.spans import span_links, span_of
from admin.pages.parts.tags import link, tag
from admin.pages.parts.times import took
from admin.pages.parts.volume import volume_charts
from admin.pages.viewer import Viewer
from bus.domain.destination import Ordering
from bus.domain.subscription import BatchFormat
from bus.localized_text import N_
from bus.security.keys import Action


@page("/destinations/{code}/subscriptions/{name}", N_("Subscription"))
async def subscription(viewer: Viewer) -> None:
    """Show one subscription."""
    code, name = viewer.place["code"], viewer.place["name"]
    found = await viewer.api.get(f"/destinations/{code}/subscriptions/{name}", SubscriptionView)
    destination = await viewer.api.get(f"/destinations/{code}", DestinationView)
    actions = await viewer.api.get(f"/destinations/{code}/subscriptions/{name}/actions", SubscriptionActionsView)
    head, place = tag("div"), tag("div")
    with head:
        _head(viewer, code, found, actions, place)
    await ConditionCard(viewer, code, name).follow()
    await ActivityPart(viewer, code, name).follow()
    keeps_order = destination.ordering is not Ordering.NONE
    if keeps_order:
        await HeldKeys(viewer, code, name).follow()
    await _volume(viewer, code, name)
    with tag("div", "pier-grid q-mb-md"):
        _settings(viewer, found, keeps_order=keeps_order)
        sample(viewer, code, name, why_not=viewer.say(actions.sample.why_text or actions.sample.why))
    await history(viewer, f"destinations/{code}/subscriptions/{name}")


def _head(
    viewer: Viewer, code: str, found: SubscriptionView, actions: SubscriptionActionsView, place: ui.element
) -> None:
    t, name = viewer.t, found.name
    with tag("p", "pier-quiet q-mb-none"):
        link(code, f"/admin/destinations/{code}")
    with heading(name):
        tag("span", "pier-spacer")
        to(t("Messages"), f"/admin/find?destination={code}&subscription={name}", icon="search")
        to(t("Failures"), f"/admin/failures?destination={code}&subscription={name}", icon="error_outline")
        if viewer.may(Action.RESEND, code):
            query = as_query({"destination": code, "subscription": name})
            to(t("Discard its backlog…"), f"/admin/resends/discard?{query}", icon="delete_sweep")
        if viewer.may(Action.PAUSE, code):
            verdict = actions.resume if found.paused else actions.pause
            why = viewer.say(verdict.why_text or verdict.why)
            _pause_button(viewer, code, found, why)
        if viewer.may(Action.CONFIGURE, code):
            to(t("Edit"), f"/admin/destinations/{code}/subscriptions/{name}/edit", icon="edit")
            _rotate_button(viewer, code, found, place)
            _remove_button(viewer, code, name)


def _pause_button(viewer: Viewer, code: str, found: SubscriptionView, why: str) -> None:
    t, name, paused = viewer.t, found.name, found.paused

    async def switch() -> None:
        if not paused and not await confirmed(
            viewer,
            t("Pause {name}?", name=name),
            t("Its messages wait until it is resumed; other subscriptions go on. Nothing is lost."),
            action=t("Pause"),
            danger=False,
        ):
            return
        await viewer.api.patch(f"/destinations/{code}/subscriptions/{name}", {"paused": not paused})
        ui.navigate.reload()

    button(
        t("Resume") if paused else t("Pause"), switch, icon="play_arrow" if paused else "pause", disabled_because=why
    )


def _rotate_button(viewer: Viewer, code: str, found: SubscriptionView, place: ui.element) -> None:
    t, name = viewer.t, found.name

    async def rotate() -> None:
        if not await confirmed(
            viewer,
            t("Make a new secret for {name}?", name=name),
            t("For 24 hours every request has both signatures, so that the subscriber can go over without a gap."),
            action=t("Make a new secret"),
            danger=False,
        ):
            return
        path = f"/destinations/{code}/subscriptions/{name}/rotate-secret"
        answer = (await viewer.api.post(path, {"overlap": "24h"})).read(SubscriptionView)
        title, way_on = (
            t("The new secret of {name}", name=name),
            (t("I have kept it"), f"/admin/destinations/{code}/subscriptions/{name}"),
        )
        place.clear()
        with place:
            kept(viewer, title, {t("secret"): answer.secret or ""}, then=way_on, is_hashed=False)

    why = "" if found.secret else t("It has no secret: make one under Edit.")
    button(t("Rotate the secret"), rotate, icon="vpn_key", disabled_because=why)


def _remove_button(viewer: Viewer, code: str, name: str) -> None:
    t = viewer.t

    async def remove() -> None:
        if not await confirmed(
            viewer,
            t("Remove {name}?", name=name),
            t("Its open deliveries are canceled: they are shown as such, and nobody gets them. This cannot be undone."),
            action=t("Remove the subscription"),
            typed=name,
        ):
            return
        await viewer.api.delete(f"/destinations/{code}/subscriptions/{name}")
        ui.navigate.to(f"/destinations/{code}")

    button(t("Remove"), remove, icon="delete_outline")


async def _volume(viewer: Viewer, code: str, name: str) -> None:
    t = viewer.t
    span = span_of(viewer)
    query = {"destination": code, "from": span.since(viewer), "by": "subscription", "limit": 500}
    stats = await viewer.api.get("/stats", StatsView, query)
    stats.series = [one for one in stats.series if one.subscription == name]
    totals = stats.series[0].totals if stats.series else NO_FIGURES
    ended = totals.deliveries
    with tag("section", "pier-card", aria_label=t("What went on")):
        with tag("div", "pier-row-of"):
            tag("h2", "", t("What went on"))
            tag("span", "pier-spacer")
            span_links(viewer, f"/admin/destinations/{code}/subscriptions/{name}")
        figures(
            [
                (t("delivered"), count(ended.get("delivered", 0)), ""),
                (t("dead"), count(ended.get("dead", 0)), ""),
                (t("attempts"), count(totals.attempts), ""),
                (t("success of attempts"), share(totals.success_rate), ""),
                (t("p50 / p99 latency"), took(totals.p50_ms), f"/ {took(totals.p99_ms)}"),
            ]
        )
        volume_charts(viewer, has_accepted=False).draw(stats)


def _settings(viewer: Viewer, found: SubscriptionView, *, keeps_order: bool) -> None:
    t = viewer.t
    on_failure = [(t("Once one is given up"), t(ON_FAILURE[found.on_failure]))] if keeps_order else []
    retry = found.retry
    waits = (
        ", ".join(retry)
        if isinstance(retry, list)
        else t("{first}, then times {factor} up to {max}", first=retry.first, factor=retry.factor, max=retry.max)
    )
    with tag("section", "pier-card", aria_label=t("Settings")):
        tag("h2", "", t("Settings"))
        pairs(
            [
                (t("URL"), lambda: copied(viewer, found.url)),
                (t("Requests at once"), count(found.max_concurrency)),
                (t("Messages in a request"), _batch(viewer, found)),
                (t("Messages a second"), count(found.rate) if found.rate else t("no limit")),
                (t("Time-out"), f"{found.timeout_seconds:g} s"),
                (t("Retried after"), waits),
                (t("Given up after"), _ends(viewer, found)),
                (t("Dead at once after"), ", ".join(map(str, found.dead_on)) or t("none")),
                *on_failure,
                (t("Signed"), t("yes") if found.secret else t("no")),
                (t("Filter"), found.filter or t("none: every message")),
                (t("Own headers"), ", ".join(found.headers) or t("none")),
                (t("Taken for stuck after"), found.stuck_after),
                (t("Owner"), found.owner or t("that of its destination")),
                (t("Alarms"), _alarms(found) or t("by the limits of the whole bus")),
            ]
        )


def _alarms(found: SubscriptionView) -> str:
    limits = msgspec.structs.asdict(found.alarms)
    return ", ".join(f"{name} {limit}" for name, limit in limits.items() if limit is not None)


def _batch(viewer: Viewer, found: SubscriptionView) -> str:
    if found.batch == 1:
        return viewer.t("one")
    if found.batch_format is BatchFormat.JSON:
        return viewer.t("up to {count}, as one JSON array", count=found.batch)
    return viewer.t("up to {count}, a line of JSON for each", count=found.batch)


def _ends(viewer: Viewer, found: SubscriptionView) -> str:
    attempts = found.retry_max_attempts
    more = viewer.t(" or {count} attempts", count=attempts) if attempts else ""
    return f"{found.retry_max_age}{more}"
