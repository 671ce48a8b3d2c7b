"""The pages to create, change and remove a user, and to reset the password."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.models.responses.access import NewPasswordView, UserView
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import button, to
from admin.pages.parts.dialogs import confirmed
from admin.pages.parts.figures import pairs
from admin.pages.parts.forms import Form
from admin.pages.parts.grants import Grant, codes_of, is_last_admin, last_admin
from admin.pages.parts.notes import done, note
from admin.pages.parts.rights import LOGINS, ROLES, limits
from admin.pages.parts.secret_shown_once import kept
from admin.pages.parts.tags import tag
from admin.pages.parts.times import moment
from admin.pages.viewer import Viewer
from admin.pages.views.access import explain_open
from bus.localized_text import N_
from bus.security.keys import Role

_OFFERED: Final = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)
_LIST: Final = "/admin/access"
_LOGIN: Final = "/admin/login?next=%2Fadmin%2Faccess"


@page("/access/new-user", N_("New user"))
async def new_user(viewer: Viewer) -> None:
    """Make a user, and show the password once."""
    t, is_open = viewer.t, viewer.principal.kind == "open"
    codes = await codes_of(viewer)
    heading(t("New user"))
    place = tag("div")
    with place:
        if is_open:
            explain_open(viewer)
    with place, tag("section", "pier-card pier-narrow", aria_label=t("New user")):
        form = Form(viewer)
        form.text("name", t("Name"), hint=t("Letters, digits and . _ @ -; it does not change later."))
        grant = Grant(viewer, _OFFERED, codes, role=Role.ADMIN if is_open else Role.VIEWER)

        async def make() -> None:
            name = str(form.value("name") or "").strip()
            if is_open and grant.role != Role.ADMIN and not await _closed_without_admin(viewer):
                return
            made = (await viewer.api.post("/users", {"name": name, **grant.body()})).read(NewPasswordView)
            place.clear()
            with place:
                _show(viewer, made, is_first=is_open)

        with tag("div", "pier-row-of q-mt-md"):
            form.send(t("Make the user"), make)
            to(t("Cancel"), _LIST)


async def _closed_without_admin(viewer: Viewer) -> bool:
    t = viewer.t
    return await confirmed(
        viewer,
        t("Close the bus without an admin?"),
        last_admin(viewer),
        action=t("Make the user"),
        typed="no admin",
    )


def _show(viewer: Viewer, made: NewPasswordView, *, is_first: bool) -> None:
    t = viewer.t
    kept(
        viewer,
        t("{name} may log in now", name=made.name),
        {t("Name"): made.name, t("Password"): made.password},
        then=(t("Log in"), _LOGIN) if is_first else (t("I have kept it"), _LIST),
        closed=t("The bus is closed now: log in as this user. Make keys for your producers next.") if is_first else "",
    )


@page("/access/users/{name}", N_("User"))
async def user(viewer: Viewer) -> None:
    """Show one user, with a form for their rights."""
    name = viewer.place["name"]
    found = await viewer.api.get(f"/users/{name}", UserView)
    codes = await codes_of(viewer)
    is_last = await is_last_admin(viewer, user=name)
    with heading(name):
        tag("span", "pier-spacer")
        to(viewer.t("What they did"), f"/admin/audit?who={name}", icon="history")
    _told_before(viewer, found, is_last=is_last)
    place = tag("div")
    with place, tag("div", "pier-grid"):
        if found.logs_in_by == "password":
            _rights(viewer, found, codes)
        else:
            _given(viewer, found)
        _ends(viewer, found, place)


def _told_before(viewer: Viewer, found: UserView, *, is_last: bool) -> None:
    t, name = viewer.t, found.name
    if found.blocked:
        note(t("This user is blocked"), t("They cannot log in, and have no session."), tone="bad")
    if is_last:
        note(t("This is the only admin"), last_admin(viewer), tone="warn")
    if _is_me(viewer, name):
        note(t("This is you"), t("What you take away here, you cannot give back to yourself."))


def _given(viewer: Viewer, found: UserView) -> None:
    t = viewer.t
    with tag("section", "pier-card", aria_label=t("What they may do")):
        tag("h2", "", t("What they may do"))
        pairs(
            [
                (t("Role"), t(ROLES[found.role])),
                (t("Destinations"), limits(viewer, [found.role], found.destinations)),
            ]
        )
        said = t("The OpenID Connect provider says it at each login: change it there, or block the user here.")
        tag("p", "pier-quiet q-mt-sm", said)


def _rights(viewer: Viewer, found: UserView, codes: list[str]) -> None:
    t, name = viewer.t, found.name
    with tag("section", "pier-card", aria_label=t("What they may do")):
        tag("h2", "", t("What they may do"))
        form = Form(viewer)
        grant = Grant(viewer, _OFFERED, codes, role=found.role, limited_to=found.destinations)

        async def change() -> None:
            nonlocal found
            loses = found.role == Role.ADMIN and grant.role != Role.ADMIN
            if loses and not await _confirm_lockout(
                viewer,
                t("Take the role admin from {name}?", name=name),
                t("It holds at once, for open pages too."),
                action=t("Take it"),
                name=name,
            ):
                return
            found = (await viewer.api.patch(f"/users/{name}", grant.body())).read(UserView)
            done(t("Changed; it holds for open sessions too."))

        with tag("div", "pier-row-of q-mt-md"):
            form.send(t("Change"), change)


def _ends(viewer: Viewer, found: UserView, place: ui.element) -> None:
    t, name = viewer.t, found.name

    async def reset() -> None:
        if await confirmed(
            viewer,
            t("Make another password for {name}?", name=name),
            t(
                "The present one ends, and with it all sessions of {name}, within seconds. The new one is shown once.",
                name=name,
            ),
            action=t("Make another password"),
        ):
            made = (await viewer.api.post(f"/users/{name}/reset-password")).read(NewPasswordView)
            place.clear()
            with place:
                _show(viewer, made, is_first=False)

    async def remove() -> None:
        if await _confirm_lockout(
            viewer,
            t("Remove {name}?", name=name),
            t(
                "All sessions of {name} end within seconds, open pages too. What they did stays in the audit log.",
                name=name,
            ),
            action=t("Remove the user"),
            name=name,
        ):
            await viewer.api.delete(f"/users/{name}")
            ui.navigate.to("/access")

    async def block() -> None:
        if not found.blocked and not await _confirm_lockout(
            viewer,
            t("Block {name}?", name=name),
            t(
                "All sessions of {name} end within seconds, and they cannot log in until they are let in again.",
                name=name,
            ),
            action=t("Block the user"),
            name=name,
        ):
            return
        await viewer.api.patch(f"/users/{name}", {"blocked": not found.blocked})
        ui.navigate.reload()

    with tag("section", "pier-card", aria_label=t("Login")):
        tag("h2", "", t("Login"))
        pairs(
            [
                (t("Logs in by"), t(LOGINS[found.logs_in_by])),
                (t("Made"), lambda: moment(viewer, found.created_at)),
            ]
        )
        with tag("div", "pier-row-of q-mt-md"):
            if _is_me(viewer, name) and found.logs_in_by == "password":
                to(t("Change my password"), "/admin/account", icon="password")
            elif found.logs_in_by == "password":
                button(t("Reset the password"), reset, icon="password")
            button(t("Let in again") if found.blocked else t("Block"), block, icon="block")
            button(t("Remove"), remove, icon="delete_outline")


async def _confirm_lockout(viewer: Viewer, title: str, text: str, *, action: str, name: str) -> bool:
    """Ask before an action that may lock out the viewer, or all users."""
    said = [text]
    if _is_me(viewer, name):
        said.append(viewer.t("This is you: you cannot undo it yourself."))
    if await is_last_admin(viewer, user=name):
        said.append(last_admin(viewer))
    return await confirmed(viewer, title, " ".join(said), action=action, typed=name if len(said) > 1 else "")


def _is_me(viewer: Viewer, name: str) -> bool:
    return viewer.principal.kind == "user" and viewer.principal.name == name
