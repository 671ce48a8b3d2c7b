"""Texts that people take elsewhere: ids and URLs, each with a button that copies it."""

from __future__ import annotations

from nicegui import ui

from admin.pages.parts.foreign_records import visible
from admin.pages.parts.tags import tag
from admin.pages.viewer import Viewer


def copy_button(viewer: Viewer, text: str) -> None:
    """Show a button that copies a text as it is."""
    t = viewer.t
    said = t("Copy {text}", text=visible(text))
    with tag("button", "pier-copy-one", type="button", data_pier_text=text, aria_label=said, title=t("Copy")):
        ui.icon("content_copy", size="14px").props["aria-hidden"] = "true"


def copied(viewer: Viewer, text: str, classes: str = "pier-bidi") -> None:
    """Show a text with its button; nothing for an empty one."""
    if text:
        with tag("span", "pier-copied"):
            tag("span", classes, visible(text))
            copy_button(viewer, text)
