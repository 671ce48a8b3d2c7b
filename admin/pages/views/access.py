"""The page of users and keys."""

from __future__ import annotations

from admin.models.responses.access import KeyView, UserView
from admin.models.responses.base import Listing
from admin.pages.frame import heading, page
from admin.pages.parts.buttons import to
from admin.pages.parts.notes import empty, note
from admin.pages.parts.rights import LOGINS, ROLES, limits
from admin.pages.parts.tables import Cell, Column, Row, badge, moment, place, table, text
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Role


@page("/access", N_("Access"))
async def access(viewer: Viewer) -> None:
    """Show users and keys; without any, show what changes for all once the first one is created."""
    t = viewer.t
    users = (await viewer.api.get("/users", Listing[UserView])).items
    keys = (await viewer.api.get("/keys", Listing[KeyView])).items
    heading(t("Access"))
    if not users and not keys:
        explain_open(viewer)
    with tag("section", "pier-card", aria_label=t("Users")):
        _head(t("Users"), t("New user"), "/admin/access/new-user")
        _users(viewer, users)
    with tag("section", "pier-card", aria_label=t("API keys")):
        _head(t("API keys"), t("New key"), "/admin/access/new-key")
        _keys(viewer, keys)


def explain_open(viewer: Viewer) -> None:
    """Show that the bus is open to its own machine until the first user or key is created, and what changes then."""
    t = viewer.t
    with note(
        t("The bus is open: the first user or key closes it"),
        t("Until then whoever reaches this machine's loopback may do everything, and nobody else anything."),
        tone="warn",
    ):
        tag("p", "", t("Make a user with the role admin first, so that somebody can log in. At once from then on:"))
        with tag("ul"):
            tag("li", "", t("These pages ask everybody to log in, you too."))
            tag("li", "", t("Producers need a key: without one they are refused (401)."))
            tag("li", "", t("Nothing is lost: an SDK keeps what it has on its disk, and sends it once it has a key."))
            tag(
                "li", "", t("A producer without the SDK must keep what was refused itself. Deliveries go on as before.")
            )


def _head(title: str, make: str, href: str) -> None:
    with tag("div", "pier-row-of q-mb-sm"):
        tag("h2", "", title)
        tag("span", "pier-spacer")
        to(make, href, icon="add")


def _users(viewer: Viewer, users: list[UserView]) -> None:
    t = viewer.t
    if not users:
        empty(
            t("There is no user yet"),
            t("Users are people: they log in to these pages with a password."),
            action=(t("Make the first user"), "/admin/access/new-user"),
        )
        return
    columns = [
        Column("name", t("Name")),
        Column("role", t("Role")),
        Column("destinations", t("Destinations")),
        Column("login", t("Logs in by")),
        Column("made", t("Made")),
    ]
    table(columns, [_user(viewer, user) for user in users], label=t("Users"))


def _user(viewer: Viewer, user: UserView) -> Row:
    mine = viewer.principal.kind == "user" and viewer.principal.name == user.name
    named = f"{user.name} {viewer.t('(you)')}" if mine else user.name
    return {
        "key": user.name,
        "name": place(named, f"/admin/access/users/{user.name}"),
        "role": badge(viewer.t("blocked"), "bad", "block") if user.blocked else _role(viewer, [user.role]),
        "destinations": text(limits(viewer, [user.role], user.destinations), cut=True),
        "login": text(viewer.t(LOGINS[user.logs_in_by])),
        "made": moment(viewer, user.created_at),
    }


def _keys(viewer: Viewer, keys: list[KeyView]) -> None:
    t = viewer.t
    if not keys:
        empty(
            t("There is no key yet"),
            t("Keys are for programs: producers send with one, scripts read and configure with one."),
            action=(t("Make the first key"), "/admin/access/new-key"),
        )
        return
    columns = [
        Column("name", t("Name")),
        Column("id", t("Id")),
        Column("role", t("Role")),
        Column("destinations", t("Destinations")),
        Column("made", t("Made")),
        Column("used", t("Last used")),
    ]
    table(columns, [_key(viewer, key) for key in keys], label=t("API keys"))


def _key(viewer: Viewer, key: KeyView) -> Row:
    return {
        "key": key.id,
        "name": place(key.name or viewer.t("without a name"), f"/admin/access/keys/{key.id}"),
        "id": text(key.id, mono=True),
        "role": _role(viewer, key.roles),
        "destinations": text(limits(viewer, key.roles, key.destinations), cut=True),
        "made": moment(viewer, key.created_at),
        "used": moment(viewer, key.last_used_at) if key.last_used_at else text(viewer.t("never")),
    }


def _role(viewer: Viewer, roles: list[str]) -> Cell:
    said = ", ".join(viewer.t(ROLES.get(role, role)) for role in roles)
    return badge(said, "warn" if Role.ADMIN in roles else "")
