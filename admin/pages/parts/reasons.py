"""The field for the reason of an action, which later readers see."""

from __future__ import annotations

from typing import Final

from nicegui import ui

from admin.pages.viewer import Viewer

_LONGEST: Final = 1_000


def asked_reason(viewer: Viewer, *, is_required: bool = False) -> ui.input:
    """Return the field; one that is required is checked by its ``validate``."""
    t = viewer.t
    rules = {t("It needs a reason."): lambda text: bool((text or "").strip())} if is_required else None
    field = ui.input(t("Reason, for whoever looks at this later"), validation=rules).props("outlined dense")
    field.props["maxlength"] = _LONGEST
    return field.without_auto_validation()
