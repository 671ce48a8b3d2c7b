"""One's own account: who I am, what I may do, until when, and my password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nicegui import ui

from admin.models.responses.access import SessionView
from admin.pages.assets import url_of
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import button
from admin.pages.parts.figures import pairs
from admin.pages.parts.notes import empty, note
from admin.pages.parts.rights import LOGINS, MAY, ROLES, limits
from admin.pages.parts.tags import tag
from admin.pages.parts.times import moment, waited
from admin.pages.viewer import Viewer
from bus.localized_text import N_

_AWAY: Final = "The bus does not answer. Nothing that it acknowledged is lost; try again in a moment."


@page("/account", N_("Account"))
async def account(viewer: Viewer) -> None:
    """Show who I am and what I may do, and let me change my password."""
    t, found = viewer.t, await viewer.api.get("/session", SessionView)
    heading(t("Account"))
    if found.kind == "open":
        empty(
            t("Nobody is logged in: the bus is open"),
            t("Whoever reaches this machine's loopback may do everything. The first user or key ends that."),
            action=(t("Make the first user"), "/admin/access/new-user"),
        )
        return
    if "changed" in viewer.query:
        note(
            t("Your password is changed"),
            t("All your other sessions have ended: log in there with the new password."),
            tone="good",
        )
    with tag("div", "pier-grid"):
        _person(viewer, found)
        if found.logs_in_by == "password":
            _password(viewer, found.name)


def _person(viewer: Viewer, found: SessionView) -> None:
    t = viewer.t
    shown: list[tuple[str, str | Callable[[], object]]] = [
        (t("Name"), found.name),
        (t("Role"), ", ".join(t(ROLES.get(role, role)) for role in found.roles)),
        (t("Destinations"), limits(viewer, found.roles, found.destinations)),
        (t("May"), ", ".join(t(MAY[action]) for action in found.may if action in MAY)),
    ]
    if found.logs_in_by is not None:
        shown.append((t("Logs in by"), t(LOGINS[found.logs_in_by])))
    if found.expires_at is not None:
        shown.append((t("Session ends"), lambda: moment(viewer, found.expires_at)))
        shown.append((t("Or after"), t("{time} without anything done", time=waited(found.idle_seconds))))
    with tag("section", "pier-card", aria_label=t("Who I am")):
        tag("h2", "", t("Who I am"))
        pairs(shown)
        if found.csrf is not None:
            with tag("div", "pier-row-of q-mt-md"):
                button(t("Log out"), lambda: ui.run_javascript(f"pier.logOut({viewer.api.csrf!r})"), icon="logout")


def _password(viewer: Viewer, name: str) -> None:
    t = viewer.t
    ui.add_head_html(f'<script src="{url_of("account.js")}"></script>')
    with tag("section", "pier-card", aria_label=t("Change my password")):
        tag("h2", "", t("Change my password"))
        tag("p", "pier-quiet", t("At least 12 characters. It ends all your sessions but this one."))
        with tag(
            "form",
            "pier-fields",
            id="pier-password",
            method="post",
            data_csrf=viewer.api.csrf,
            data_differ=t("The two new passwords differ."),
            data_away=t(_AWAY),
            data_wait=t("try again in {seconds} s"),
        ):
            tag("p", "pier-problem", role="alert", hidden=True)
            tag(
                "input",
                "pier-hidden",
                name="username",
                autocomplete="username",
                value=name,
                tabindex="-1",
                readonly="",
                aria_label=t("Name"),
            )
            _secret(t("Present password"), "current_password", "current-password")
            _secret(t("New password"), "password", "new-password", least=12)
            _secret(t("New password again"), "again", "new-password", least=12)
            tag("button", "pier-deed", t("Change the password"), type="submit")


def _secret(label: str, name: str, kind: str, least: int | None = None) -> None:
    tag("label", "", label, for_=f"pier-account-{name}")
    tag(
        "input",
        "",
        id=f"pier-account-{name}",
        name=name,
        type="password",
        autocomplete=kind,
        required="",
        minlength=least,
        maxlength="1024",
    )
