"""The rates of writes to the store, changed while the bus runs."""

from __future__ import annotations

from admin.models.responses.configuration import StoreRatesView
from admin.pages.parts.forms import Form
from admin.pages.parts.notes import done
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


async def store_rates(viewer: Viewer) -> None:
    """Show the form."""
    t = viewer.t
    known = await viewer.api.get("/rates", StoreRatesView)
    with tag("section", "pier-card", aria_label=t("Store writes a second")):
        tag("h2", "", t("Store writes a second"))
        tag("p", "pier-quiet", t("Of each process; what is above it waits on disk, and messages flow on."))
        form = Form(viewer)
        with tag("div", "pier-form"):
            form.number("receiver", t("Receivers"), known.receiver, hint=t("Empty for no limit."))
            form.number("dispatcher", t("Dispatchers"), known.dispatcher, hint=t("Empty for no limit."))

        async def save() -> None:
            wanted = {"receiver": form.value("receiver"), "dispatcher": form.value("dispatcher")}
            await viewer.api.put("/rates", wanted)
            done(t("In force at once."))

        form.send(t("Save"), save)
