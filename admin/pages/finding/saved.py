"""Searches that people keep under a name, for themselves or for all."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from nicegui import ui

from admin.models.responses.access import SavedView
from admin.models.responses.base import Listing
from admin.pages.api_error import ApiError
from admin.pages.finding.filters import Filters, query_of
from admin.pages.parts.asking import answers, dialog
from admin.pages.parts.buttons import button
from admin.pages.parts.notes import done
from admin.pages.parts.tags import link, tag
from admin.pages.viewer import Viewer

PAGE: Final = "find"
_MISSING: Final = (401, 404)


async def saved_views(viewer: Viewer, filters: Filters) -> None:
    """Show the saved views, and a button that saves this search; nothing where the API has no saved views."""
    try:
        found = await viewer.api.get("/views", Listing[SavedView])
    except ApiError as error:
        if error.status in _MISSING:
            return
        raise
    _Views(viewer, filters).show(found.items)


class _Views:
    def __init__(self, viewer: Viewer, filters: Filters) -> None:
        self._viewer = viewer
        self._filters = filters
        self._row = tag("div", "pier-row-of pier-views", role="group", aria_label=viewer.t("Saved views"))

    def show(self, items: list[SavedView]) -> None:
        t = self._viewer.t
        with self._row:
            tag("span", "pier-quiet", t("Saved views"))
            for item in items:
                if item.page == PAGE:
                    self._view(item)
            if self._filters.is_any:
                button(t("Save this search"), self._ask, icon="bookmark_add")

    def _view(self, item: SavedView) -> None:
        t, name = self._viewer.t, item.name
        with tag("span", "pier-chip"):
            owner = t("shared by {name}", name=item.owner.name) if item.shared else None
            link(name, f"/admin/find?{item.query}", "pier-bidi", title=owner)
            if item.mine:
                label = t("Remove the view {name}", name=name)
                with tag("button", "pier-plain-button", type="button", aria_label=label, title=label) as button:
                    ui.icon("close", size="14px").props["aria-hidden"] = "true"
                button.on("click", lambda: self._remove(name))

    def _ask(self) -> None:
        t = self._viewer.t
        with dialog(t("Save this search")) as asking:
            tag("p", "pier-quiet", t("A time such as “the last hour” stays relative."))
            rules = {
                t("It needs a name."): lambda text: bool((text or "").strip()),
                t("A name has no slash."): lambda text: "/" not in (text or ""),
            }
            name = ui.input(t("Name of the view"), validation=rules)
            name.props("outlined dense").without_auto_validation()
            shared = ui.checkbox(t("For everybody who may see its destinations"))

            async def save() -> bool:
                if not name.validate():
                    return False
                await self._save(name.value.strip(), shared=bool(shared.value))
                return True

            answers(self._viewer, asking, t("Save"), save)

    async def _save(self, name: str, *, shared: bool) -> None:
        query = query_of(self._filters.query())
        await self._viewer.api.put(_path(name), {"name": name, "page": PAGE, "query": query, "shared": shared})
        done(self._viewer.t("The view “{name}” is saved.", name=name))
        await self._again()

    async def _remove(self, name: str) -> None:
        await self._viewer.api.delete(_path(name))
        done(self._viewer.t("The view “{name}” is removed.", name=name))
        await self._again()

    async def _again(self) -> None:
        found = await self._viewer.api.get("/views", Listing[SavedView])
        self._row.clear()
        self.show(found.items)


def _path(name: str) -> str:
    return f"/views/{quote(name, safe='')}"
