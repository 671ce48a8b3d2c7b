"""What roles may do, in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from admin.pages.viewer import Viewer
from bus.security.keys import Action, Role

ROLES: Final[dict[str, str]] = {
    Role.PRODUCER: "producer",
    Role.VIEWER: "viewer",
    Role.OPERATOR: "operator",
    Role.ADMIN: "admin",
}
ROLE_DOES: Final[dict[str, str]] = {
    Role.PRODUCER: "sends messages, and sees none",
    Role.VIEWER: "sees messages and figures, and changes nothing",
    Role.OPERATOR: "sees, resends, pauses and resumes",
    Role.ADMIN: "does everything: destinations, subscriptions, users, keys, the audit log",
}
MAY: Final[dict[str, str]] = {
    Action.INGEST: "send messages",
    Action.READ: "see messages and figures",
    Action.RESEND: "resend",
    Action.PAUSE: "pause and resume",
    Action.CONFIGURE: "configure the bus, its users and keys",
    "unmask": "see what is masked",
}

LOGINS: Final[dict[str, str]] = {"password": "password", "oidc": "OpenID Connect provider"}


def limits(viewer: Viewer, roles: Collection[str], destinations: Sequence[str]) -> str:
    """Return the destinations that roles are limited to, as people read it."""
    if not destinations or Role.ADMIN in roles:
        return viewer.t("all")
    return ", ".join(destinations)
