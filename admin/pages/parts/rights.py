"""The texts about the rights of roles."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from admin.pages.viewer import Viewer
from bus.localized_text import N_
from bus.security.keys import Action, Role

ROLES: Final[dict[str, str]] = {
    Role.PRODUCER: N_("producer"),
    Role.VIEWER: N_("viewer"),
    Role.OPERATOR: N_("operator"),
    Role.ADMIN: N_("admin"),
}
ROLE_DOES: Final[dict[str, str]] = {
    Role.PRODUCER: N_("sends messages, and sees none"),
    Role.VIEWER: N_("sees messages and figures, and changes nothing"),
    Role.OPERATOR: N_("sees, resends, pauses and resumes"),
    Role.ADMIN: N_("does everything: destinations, subscriptions, users, keys, the audit log"),
}
MAY: Final[dict[str, str]] = {
    Action.INGEST: N_("send messages"),
    Action.READ: N_("see messages and figures"),
    Action.RESEND: N_("resend"),
    Action.PAUSE: N_("pause and resume"),
    Action.CONFIGURE: N_("configure the bus, its users and keys"),
    "unmask": N_("see what is masked"),
}

LOGINS: Final[dict[str, str]] = {"password": N_("password"), "oidc": N_("OpenID Connect provider")}


def limits(viewer: Viewer, roles: Collection[str], destinations: Sequence[str]) -> str:
    """Return a text with the destinations that roles are limited to."""
    if not destinations or Role.ADMIN in roles:
        return viewer.t("all")
    return ", ".join(destinations)
