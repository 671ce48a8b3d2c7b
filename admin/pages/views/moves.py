"""NSQ topics that move between clusters: the step of each, and the evidence that it waits for."""

from __future__ import annotations

from admin.models.responses.base import Listing
from admin.models.responses.lookup import MigrationView
from admin.pages.frame import heading, page
from admin.pages.parts.following import following
from admin.pages.parts.live_part import LivePart
from admin.pages.parts.notes import empty
from admin.pages.parts.tags import tag
from admin.pages.parts.topic_move import TopicMove
from admin.pages.viewer import Viewer
from bus.localized_text import N_


@page("/moves", N_("Topics that move"))
async def moves(viewer: Viewer) -> None:
    """Show the migrations that lookup proxies report, those under way first, and update them regularly."""
    t = viewer.t
    with heading(t("Topics that move")):
        tag("span", "pier-spacer")
        tools = tag("span", "pier-row-of")
    shown: dict[str, TopicMove] = {}

    def build(ids: tuple[str, ...]) -> None:
        shown.clear()
        if not ids:
            empty(t("No topic moves"), t("Begin with: bus lookup plan TOPIC --to CLUSTER"))
        shown.update({one: TopicMove(viewer) for one in ids})

    holder = LivePart(build)

    async def look() -> None:
        found = (await viewer.api.get("/lookup/migrations", Listing[MigrationView])).items
        found.sort(key=lambda one: one.ended)
        holder.update(tuple(one.id for one in found))
        for one in found:
            shown[one.id].show(one)

    await look()
    with tools:
        following(viewer, look)
