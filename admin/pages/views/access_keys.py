"""The pages to create and to revoke an API key."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.models.responses.access import KeyView, NewKeyView
from admin.models.responses.base import Listing
from admin.pages.api_error import ApiError
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import button, to
from admin.pages.parts.dialogs import confirmed
from admin.pages.parts.figures import pairs
from admin.pages.parts.forms import Form, rate_fields
from admin.pages.parts.grants import Grant, codes_of, is_last_admin, last_admin
from admin.pages.parts.notes import note
from admin.pages.parts.rights import ROLES, limits
from admin.pages.parts.secret_shown_once import kept
from admin.pages.parts.tags import tag
from admin.pages.parts.times import moment
from admin.pages.viewer import Viewer
from admin.pages.views.access import explain_open
from bus.localized_text import N_
from bus.security.keys import Role

_OFFERED: Final = (Role.PRODUCER, Role.VIEWER, Role.OPERATOR, Role.ADMIN)
_LIST: Final = "/admin/access"


@page("/access/new-key", N_("New API key"))
async def new_key(viewer: Viewer) -> None:
    """Make a key, and show it once."""
    t, is_open = viewer.t, viewer.principal.kind == "open"
    codes = await codes_of(viewer)
    heading(t("New API key"))
    place = tag("div")
    with place:
        if is_open:
            explain_open(viewer)
    with place, tag("section", "pier-card pier-narrow", aria_label=t("New API key")):
        form = Form(viewer)
        form.text("name", t("Name"), hint=t("Which program it is for, so that you know what a revocation stops."))
        grant = Grant(viewer, _OFFERED, codes, role=Role.PRODUCER)

        async def make() -> None:
            if is_open and not await _closed_without_user(viewer, has_admin=grant.role == Role.ADMIN):
                return
            name = str(form.value("name") or "").strip()
            made = (await viewer.api.post("/keys", {"name": name, **grant.body()})).read(NewKeyView)
            place.clear()
            with place:
                kept(
                    viewer,
                    t("The key is made"),
                    {t("Authorization: Bearer"): made.key},
                    then=(t("I have kept it"), _LIST),
                    closed=t("The bus is closed now: every request needs a key or a login.") if is_open else "",
                )

        with tag("div", "pier-row-of q-mt-md"):
            form.send(t("Make the key"), make)
            to(t("Cancel"), _LIST)


async def _closed_without_user(viewer: Viewer, *, has_admin: bool) -> bool:
    t = viewer.t
    nobody = t("No user is made yet, so that nobody can log in to these pages any more, you neither.")
    rest = t("With this key you can make one: bus user add NAME --role admin") if has_admin else last_admin(viewer)
    return await confirmed(
        viewer,
        t("Close the bus before there is a user?"),
        f"{nobody} {rest}",
        action=t("Make the key"),
        typed="" if has_admin else "no admin",
    )


@page("/access/keys/{id}", N_("API key"))
async def key(viewer: Viewer) -> None:
    """Show one key, and revoke it."""
    t, wanted = viewer.t, viewer.place["id"]
    keys = (await viewer.api.get("/keys", Listing[KeyView])).items
    found = next((one for one in keys if one.id == wanted), None)
    if found is None:
        raise ApiError(404, t("There is no key {id}; it may have been revoked.", id=wanted))
    is_last = await is_last_admin(viewer, key=wanted)
    name = found.name or wanted
    with heading(name):
        tag("span", "pier-spacer")
        to(t("What it did"), f"/admin/audit?who={wanted}", icon="history")
    if is_last:
        note(t("This is the only admin"), last_admin(viewer), tone="warn")

    async def revoke() -> None:
        said = [t("It is refused (401) from then on: at once by this process, within seconds by the others.")]
        if Role.PRODUCER in found.roles:
            said.append(t("A producer's SDK keeps what it has on its disk until it has another key; nothing is lost."))
        if is_last:
            said.append(last_admin(viewer))
        title, action = t("Revoke the key {name}?", name=name), t("Revoke the key")
        if await confirmed(viewer, title, " ".join(said), action=action, typed=name if is_last else ""):
            await viewer.api.delete(f"/keys/{wanted}")
            ui.navigate.to("/access")

    used = found.last_used_at
    with tag("section", "pier-card pier-narrow", aria_label=t("API key")):
        pairs(
            [
                (t("Id"), found.id),
                (t("Role"), ", ".join(t(ROLES.get(role, role)) for role in found.roles)),
                (t("Destinations"), limits(viewer, found.roles, found.destinations)),
                (t("Made"), lambda: moment(viewer, found.created_at)),
                (t("Last used"), (lambda: moment(viewer, used)) if used else t("never")),
            ]
        )
        tag(
            "p",
            "pier-quiet q-mt-sm",
            t("What it may do does not change: make another one, move the program to it, then revoke this one."),
        )
        form = Form(viewer)
        rate_fields(viewer, form, found)

        async def limit() -> None:
            await viewer.api.patch(f"/keys/{wanted}", {"rate": form.value("rate"), "burst": form.whole("burst")})
            ui.navigate.to(f"/access/keys/{wanted}")

        with tag("div", "pier-row-of q-mt-sm"):
            form.send(t("Save"), limit)
            button(t("Revoke"), revoke, icon="delete_outline")
