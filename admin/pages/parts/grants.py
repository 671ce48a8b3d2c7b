"""The part of a form with the rights of a user or a key."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from admin.models.responses.access import KeyView, UserView
from admin.models.responses.base import Listing
from admin.models.responses.configuration import DestinationView
from admin.pages.parts.rights import ROLE_DOES, ROLES
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.security.keys import Role


class Grant:
    """A role, and the destinations that it is limited to; an admin is never limited."""

    def __init__(
        self,
        viewer: Viewer,
        offered: Sequence[Role],
        codes: Sequence[str],
        *,
        role: str,
        limited_to: Sequence[str] = (),
    ) -> None:
        t = viewer.t
        with tag("div", "pier-choice", role="group", aria_label=t("Role")):
            tag("span", "pier-legend", t("Role"))
            self._role = ui.radio(
                {one.value: f"{t(ROLES[one])}: {t(ROLE_DOES[one])}" for one in offered},
                value=role,
                on_change=lambda: self._fit(viewer),
            ).props("dense")
        known = sorted({*codes, *limited_to})
        self._limits = ui.select(known, label=t("Limited to destinations"), multiple=True, value=list(limited_to))
        self._limits.props("outlined dense stack-label").classes("pier-field")
        self._fit(viewer)

    @property
    def role(self) -> str:
        """The role chosen."""
        return str(self._role.value)

    def body(self) -> dict[str, object]:
        """Return it as the API takes it."""
        return {"role": self.role, "destinations": [] if self.role == Role.ADMIN else list(self._limits.value)}

    def _fit(self, viewer: Viewer) -> None:
        t, is_admin = viewer.t, self.role == Role.ADMIN
        self._limits.set_enabled(not is_admin)
        hint = t("An admin is not limited.") if is_admin else t("None chosen: all destinations, those made later too.")
        self._limits.props["hint"] = hint


async def codes_of(viewer: Viewer) -> list[str]:
    """Return the codes of all destinations; raises ``ApiError`` for viewers who may not create users and keys."""
    await viewer.api.get("/users", Listing[UserView])
    return [item.code for item in (await viewer.api.get("/destinations", Listing[DestinationView])).items]


async def is_last_admin(viewer: Viewer, *, user: str = "", key: str = "") -> bool:
    """Whether this user or key is the last that may configure the bus over HTTP."""
    users = (await viewer.api.get("/users", Listing[UserView])).items
    keys = (await viewer.api.get("/keys", Listing[KeyView])).items
    admins = {("user", one.name) for one in users if one.role == Role.ADMIN and not one.blocked}
    admins |= {("key", one.id) for one in keys if Role.ADMIN in one.roles}
    return admins == {("user", user) if user else ("key", key)}


def last_admin(viewer: Viewer) -> str:
    """Return the text about the consequences when no admin is left."""
    return viewer.t(
        "There is no other admin, neither user nor key: afterwards nobody can configure this bus over HTTP. Only who"
        " has its data directory can make another: bus user add NAME --role admin --data DIR"
    )
