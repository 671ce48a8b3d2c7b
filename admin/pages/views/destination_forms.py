"""Making and changing a destination."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from nicegui import ui

from admin.models.configuration import DestinationBody
from admin.models.responses.configuration import DestinationView
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import to
from admin.pages.parts.dialogs import confirmed
from admin.pages.parts.forms import Form, rate_fields
from admin.pages.parts.orders import ORDERINGS
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.domain.destination import TransportName
from bus.localized_text import N_
from bus.security.keys import Action

_TRACED, _UNTRACED = "true", "false"
_REFUSED, _ACCEPTED = "true", "false"
_NEW: Final = msgspec.convert(DestinationBody().model_dump(), DestinationView)


@page("/new-destination", N_("New destination"))
async def new_destination(viewer: Viewer) -> None:
    """Show the form for a new destination."""
    viewer.require(Action.CONFIGURE)
    heading(viewer.t("New destination"))
    _form(viewer, None, _NEW)


@page("/destinations/{code}/edit", N_("Edit the destination"))
async def edit_destination(viewer: Viewer) -> None:
    """Show the form to change a destination."""
    code = viewer.place["code"]
    viewer.require(Action.CONFIGURE, code)
    known = await viewer.api.get(f"/destinations/{code}", DestinationView)
    heading(viewer.t("Edit {code}", code=code))
    _form(viewer, code, known)


def _form(viewer: Viewer, code: str | None, known: DestinationView) -> None:
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("Settings")):
        form = Form(viewer)
        with tag("div", "pier-form"):
            if code is None:
                form.text("code", t("Code"), hint=t("What producers send to: letters, digits, . _ -"))
            form.choice(
                "transport",
                t("Transport"),
                list(TransportName),
                known.transport,
                hint=t("Can be changed while messages flow: the old transport is drained."),
            )
            form.choice(
                "ordering",
                t("Order"),
                {str(ordering): t(said) for ordering, said in ORDERINGS.items()},
                known.ordering,
                hint=t("With an order, the next message of a key waits for the one before; on the transport direct."),
            )
            form.number(
                "retention_days", t("Kept for (days)"), known.retention_days, hint=t("Then whole days are dropped.")
            )
            form.number(
                "max_bytes", t("Largest message (bytes)"), known.max_bytes, hint=t("Larger ones are refused (413).")
            )
            form.number(
                "store_rate",
                t("Store writes a second"),
                known.store_rate,
                hint=t("Empty for no limit; what is above it waits on disk."),
            )
            form.number(
                "spool_share",
                t("Share of local queues"),
                known.spool_share,
                hint=t("Between 0 and 1: once it has filled that much, its messages are refused (429), no others."),
            )
            rate_fields(viewer, form, known)
            form.text("owner", t("Owner"), known.owner, hint=t("Whose channels are told of its alarms."))
            form.number(
                "pv_min",
                t("Fewest in ten minutes"),
                known.pv_min,
                hint=t("An alarm when fewer messages come; empty for none."),
            )
            form.number(
                "pv_max",
                t("Most in ten minutes"),
                known.pv_max,
                hint=t("An alarm when more messages come; empty for none."),
            )
            form.choice(
                "traced",
                t("Traced on NSQ"),
                {_UNTRACED: t("no"), _TRACED: t("yes")},
                _TRACED if known.traced else _UNTRACED,
                hint=t("With partitions: each message gets a trace id there, and its trace tells where it was."),
            )
            form.choice(
                "refuse_unchecked_keys",
                t("Unchecked keys"),
                {_ACCEPTED: t("accepted"), _REFUSED: t("refused")},
                _REFUSED if known.refuse_unchecked_keys else _ACCEPTED,
                hint=t("Messages whose idempotency key no receiver and no store can check now."),
            )
            form.lines(
                "mask",
                t("Masked, a path a line"),
                "\n".join(known.mask),
                hint=t("Hidden from all but admins who ask: body.card.number, headers.authorization"),
            )
        with tag("div", "pier-row-of q-mt-md"):
            form.send(t("Make it") if code is None else t("Save"), lambda: _save(viewer, form, code, known))
            to(t("Leave it"), "/admin/destinations" if code is None else f"/admin/destinations/{code}")


async def _save(viewer: Viewer, form: Form, code: str | None, known: DestinationView) -> None:
    wanted = _wanted(form)
    if code is None:
        name = str(form.value("code") or "")
        await viewer.api.put(f"/destinations/{_as_path(name)}", {"code": name, **wanted})
        ui.navigate.to(f"/destinations/{name}")
        return
    if wanted["transport"] != known.transport and not await _switches(viewer, code, known, wanted):
        return
    await viewer.api.patch(f"/destinations/{code}", wanted)
    ui.navigate.to(f"/destinations/{code}")


def _wanted(form: Form) -> dict[str, object]:
    return {
        "transport": form.value("transport"),
        "ordering": form.value("ordering"),
        "retention_days": form.whole("retention_days"),
        "max_bytes": form.whole("max_bytes"),
        "store_rate": form.value("store_rate"),
        "spool_share": form.value("spool_share"),
        "rate": form.value("rate"),
        "burst": form.whole("burst"),
        "owner": form.value("owner") or "",
        "pv_min": form.whole("pv_min"),
        "pv_max": form.whole("pv_max"),
        "traced": form.value("traced") == _TRACED,
        "refuse_unchecked_keys": form.value("refuse_unchecked_keys") == _REFUSED,
        "mask": [line.strip() for line in str(form.value("mask") or "").splitlines() if line.strip()],
    }


async def _switches(viewer: Viewer, code: str, known: DestinationView, wanted: Mapping[str, object]) -> bool:
    t = viewer.t
    return await confirmed(
        viewer,
        t("Move {code} from {old} to {new}?", code=code, old=known.transport, new=wanted["transport"]),
        t("New messages take the new transport at once; the old one is drained. Nothing is lost."),
        action=t("Move it"),
        danger=False,
    )


def _as_path(name: str) -> str:
    # An empty code, or one with these characters, would be another path; "-" is one that the API refuses too.
    return name if name and "/" not in name and "?" not in name and "#" not in name else "-"
