"""Clusters of brokers: which are well, and which one receivers publish to."""

from __future__ import annotations

from nicegui import ui

from admin.models.responses.operations import ClustersView
from admin.pages.parts.buttons import button
from admin.pages.parts.dialogs import confirmed
from admin.pages.parts.states import chip
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer
from bus.security.keys import Action


async def clusters(viewer: Viewer) -> None:
    """Show the clusters, with buttons to prefer one if the viewer may; nothing where there are no clusters."""
    t = viewer.t
    found = await viewer.api.get("/clusters", ClustersView)
    if not found.items:
        return
    with tag("section", "pier-card", aria_label=t("Clusters")):
        tag("h2", "", t("Clusters"))
        for one in found.items:
            with tag("div", "pier-row-of q-mb-sm"):
                tag("strong", "", one.name)
                chip(t("well"), "good") if one.ok else chip(t("away"), "bad", "error")
                tag("span", "pier-quiet", viewer.say(one.detail_text or one.detail))
                if one.published_by:
                    tag("span", "", t("published to by {receivers}", receivers=", ".join(one.published_by)))
                if viewer.may(Action.CONFIGURE):
                    _choice(viewer, one.name, is_preferred=one.preferred)


def _choice(viewer: Viewer, name: str, *, is_preferred: bool) -> None:
    t = viewer.t

    async def prefer() -> None:
        text = t("Every receiver publishes to {name} as soon as it is well; the other is still consumed.", name=name)
        if await confirmed(viewer, t("Publish to {name}?", name=name), text, action=t("Publish there"), danger=False):
            await viewer.api.put("/clusters", {"preferred": name})
            ui.navigate.reload()

    async def leave() -> None:
        await viewer.api.put("/clusters", {"preferred": None})
        ui.navigate.reload()

    if is_preferred:
        button(t("Chosen: let the bus choose again"), leave)
    else:
        button(t("Publish here"), prefer)
