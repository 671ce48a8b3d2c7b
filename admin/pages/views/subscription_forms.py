"""Making and changing a subscription."""

from __future__ import annotations

from typing import Final

import msgspec
from nicegui import ui

from admin.models.configuration import SubscriptionBody
from admin.models.responses.configuration import DestinationView, SubscriptionView
from admin.pages.api_error import ApiError
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import to
from admin.pages.parts.forms import Form
from admin.pages.parts.orders import ON_FAILURE
from admin.pages.parts.secret_shown_once import kept
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.domain.destination import Ordering
from bus.domain.subscription import BatchFormat
from bus.localized_text import N_
from bus.security.keys import Action

_AUTO: Final = "auto"
_NONE: Final = "none"
_NEW: Final = msgspec.convert(
    SubscriptionBody(url="", secret="set").model_dump() | {"paused_reason": ""},  # noqa: S106 - that there is to be one
    SubscriptionView,
)


@page("/destinations/{code}/new-subscription", N_("New subscription"))
async def new_subscription(viewer: Viewer) -> None:
    """Show the form for a new subscription."""
    code = viewer.place["code"]
    viewer.require(Action.CONFIGURE, code)
    destination = await viewer.api.get(f"/destinations/{code}", DestinationView)
    heading(viewer.t("New subscription of {code}", code=code))
    _form(viewer, destination, None, _NEW)


@page("/destinations/{code}/subscriptions/{name}/edit", N_("Edit the subscription"))
async def edit_subscription(viewer: Viewer) -> None:
    """Show the form to change a subscription."""
    code, name = viewer.place["code"], viewer.place["name"]
    viewer.require(Action.CONFIGURE, code)
    known = await viewer.api.get(f"/destinations/{code}/subscriptions/{name}", SubscriptionView)
    destination = await viewer.api.get(f"/destinations/{code}", DestinationView)
    heading(viewer.t("Edit {code}", code=name))
    _form(viewer, destination, name, known)


def _form(viewer: Viewer, destination: DestinationView, name: str | None, known: SubscriptionView) -> None:
    t, code = viewer.t, destination.code
    with tag("section", "pier-card", aria_label=t("Settings")) as place:
        form = Form(viewer)
        with tag("div", "pier-form"):
            if name is None:
                form.text("name", t("Name"), hint=t("Letters, digits, . _ - ; it does not change."))
            _target(viewer, form, known)
            _retries(viewer, form, known)
            if destination.ordering is not Ordering.NONE:
                _order(viewer, form, known)
            _content(viewer, form, known)
            _alarms(viewer, form, known)
        with tag("div", "pier-row-of q-mt-md"):
            form.send(t("Make it") if name is None else t("Save"), lambda: _save(viewer, form, code, name, place))
            to(t("Leave it"), f"/admin/destinations/{code}" + (f"/subscriptions/{name}" if name else ""))


def _target(viewer: Viewer, form: Form, known: SubscriptionView) -> None:
    t = viewer.t
    form.text("url", t("URL"), known.url, hint=t("Gets a POST for each message; any 2xx is success."))
    form.number("max_concurrency", t("Requests at once"), known.max_concurrency, hint=t("Over the whole bus."))
    form.number("rate", t("Messages a second"), known.rate, hint=t("Empty for no limit."))
    form.number("timeout_seconds", t("Time-out (seconds)"), known.timeout_seconds, hint=t("Of one request, in all."))
    choices = {_AUTO: t("signed, the bus makes the secret"), _NONE: t("not signed")}
    form.choice("secret", t("Signature"), choices, _AUTO if known.secret else _NONE)
    form.number(
        "batch",
        t("Messages in a request"),
        known.batch,
        hint=t("1 to 100. Above 1 each request is a batch, which the subscriber must read as one."),
    )
    written: dict[str, str] = {
        BatchFormat.NDJSON: t("a line of JSON for each message"),
        BatchFormat.JSON: t("one JSON array"),
    }
    form.choice("batch_format", t("A batch is"), written, known.batch_format)


def _retries(viewer: Viewer, form: Form, known: SubscriptionView) -> None:
    t = viewer.t
    retry = known.retry
    shown = ", ".join(retry) if isinstance(retry, list) else f"{retry.first} * {retry.factor} <= {retry.max}"
    form.text(
        "retry", t("Wait after each failure"), shown, hint=t("5s, 30s, 2m ... the last repeats; or 5s * 3 <= 12h")
    )
    form.text(
        "retry_max_age", t("Given up after"), known.retry_max_age, hint=t("Such as 7d; then the delivery is dead.")
    )
    form.number(
        "retry_max_attempts", t("or after so many attempts"), known.retry_max_attempts, hint=t("Empty for no limit.")
    )
    form.text(
        "dead_on",
        t("Dead at once after"),
        ", ".join(map(str, known.dead_on)),
        hint=t("Statuses such as 400, 422, which a retry does not help; empty for none."),
    )
    form.text(
        "stuck_after", t("Taken for stuck after"), known.stuck_after, hint=t("Without an outcome and not waiting.")
    )


def _order(viewer: Viewer, form: Form, known: SubscriptionView) -> None:
    t = viewer.t
    choices = {str(on_failure): t(said) for on_failure, said in ON_FAILURE.items()}
    hint = t("Until then the next messages of its key wait.")
    form.choice("on_failure", t("Once one is given up"), choices, known.on_failure, hint=hint)


def _content(viewer: Viewer, form: Form, known: SubscriptionView) -> None:
    t = viewer.t
    form.text(
        "filter", t("Filter"), known.filter or "", hint=t("JMESPath: body.total > `100`; empty for every message.")
    )
    form.text("routing_pattern", t("Routing pattern"), known.routing_pattern, hint=t("# for every routing key."))
    lines = "\n".join(f"{name}: {value}" for name, value in known.headers.items())
    form.lines("headers", t("Own headers, NAME: VALUE a line"), lines)


def _alarms(viewer: Viewer, form: Form, known: SubscriptionView) -> None:
    t, limits = viewer.t, known.alarms
    of_bus = t("Empty for the limit of the whole bus.")
    form.text("owner", t("Owner"), known.owner, hint=t("Whose channels are told of its alarms."))
    form.number("backlog", t("Alarm: messages that wait"), limits.backlog, hint=of_bus)
    form.text("age", t("Alarm: the oldest waits for"), limits.age or "", hint=of_bus)
    form.text("p99", t("Alarm: p99 of deliveries"), limits.p99 or "", hint=of_bus)
    form.number("error_rate", t("Alarm: share that fails, 0 to 1"), limits.error_rate, hint=of_bus)


async def _save(viewer: Viewer, form: Form, code: str, name: str | None, place: ui.element) -> None:
    wanted = _wanted(viewer, form)
    path = f"/destinations/{code}/subscriptions/{name or form.value('name') or '-'}"
    if name is None:
        done = await viewer.api.put(path, {"name": form.value("name") or "", **wanted})
    else:
        done = await viewer.api.patch(path, wanted)
    answer = done.read(SubscriptionView)
    shown = f"/destinations/{code}/subscriptions/{answer.name}"
    if answer.secret in (None, "set"):
        ui.navigate.to(shown)
        return
    t, title = viewer.t, viewer.t("The secret of {name}", name=answer.name)
    place.clear()
    with place:
        way_on = (t("I have kept it"), f"/admin{shown}")
        kept(viewer, title, {t("secret"): answer.secret}, then=way_on, is_hashed=False)


def _wanted(viewer: Viewer, form: Form) -> dict[str, object]:
    wanted = {
        "url": form.value("url") or "",
        "rate": form.value("rate"),
        "timeout_seconds": form.value("timeout_seconds"),
        "retry": _waits(str(form.value("retry") or "")),
        "retry_max_attempts": form.whole("retry_max_attempts"),
        "dead_on": _statuses(str(form.value("dead_on") or "")),
        "secret": _AUTO if form.value("secret") == _AUTO else None,
        "filter": form.value("filter"),
        "headers": _headers(viewer, str(form.value("headers") or "")),
        "batch_format": form.value("batch_format"),
        "owner": form.value("owner") or "",
        "alarms": {
            "backlog": form.whole("backlog"),
            "age": form.value("age") or None,
            "p99": form.value("p99") or None,
            "error_rate": form.value("error_rate"),
        },
    }
    defaults = {"max_concurrency": 16, "batch": 1, "retry_max_age": "7d", "routing_pattern": "#", "stuck_after": "5m"}
    if form.has("on_failure"):
        wanted["on_failure"] = form.value("on_failure")
    return wanted | {name: form.whole(name) or default for name, default in defaults.items()}


def _statuses(text: str) -> list[int | str]:
    """Return the HTTP statuses in a text; the API refuses texts that are no number."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    return [int(part) if part.isascii() and part.isdigit() else part for part in found]


def _waits(text: str) -> object:
    """Return a schedule as the API takes it, from ``5s, 30s`` or ``5s * 3 <= 12h``."""
    if "*" not in text:
        return [part.strip() for part in text.split(",") if part.strip()]
    first, _, rest = text.partition("*")
    factor, _, most = rest.partition("<=")
    try:
        grows = float(factor)
    except ValueError:
        grows = 0.0
    return {"first": first.strip(), "factor": grows, "max": most.strip()}


def _headers(viewer: Viewer, text: str) -> dict[str, str]:
    found = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, colon, value = line.partition(":")
        if not colon:
            raise ApiError(422, viewer.t("{line} has no colon: write NAME: VALUE", line=line), field="headers")
        found[name.strip()] = value.strip()
    return found
