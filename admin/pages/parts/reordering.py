"""The question before messages are sent again out of a strict order."""

from __future__ import annotations

from collections.abc import Mapping

from admin.pages.api_error import ApiError
from admin.pages.calls import ChangeResponse
from admin.pages.parts.dialogs import confirmed
from admin.pages.viewer import Viewer


async def sent_again(viewer: Viewer, path: str, body: Mapping[str, object]) -> ChangeResponse | None:
    """Resend through the API; ask first where that breaks a strict order; None when the user cancels."""
    t = viewer.t
    try:
        return await viewer.api.post(path, body)
    except ApiError as refused:
        if refused.field != "reorder":
            raise
        wanted = await confirmed(
            viewer, t("Send it out of order?"), viewer.say(refused.detail), action=t("Send it out of order")
        )
    return await viewer.api.post(path, {**body, "reorder": True}) if wanted else None
