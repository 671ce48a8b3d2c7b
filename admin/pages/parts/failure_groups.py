"""Deliveries with the same failure: the URL of their page, and its texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from admin.models.responses.failures import FailureGroupView
from admin.pages.parts.figures import count
from admin.pages.parts.selections import as_query
from admin.pages.parts.states import LOOKS
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import Status

GROUP: Final = "/failures/group"


def group_href(selection: Mapping[str, str]) -> str:
    """Return the URL of a group's page."""
    return f"/admin{GROUP}?{as_query(selection)}"


def resend_href(selection: Mapping[str, str]) -> str:
    """Return the URL of the page that resends the deliveries of a selection."""
    return f"/admin/resends/new?{as_query(selection)}"


def states_of(viewer: Viewer, group: FailureGroupView) -> str:
    """Return how many deliveries are in which state."""
    return ", ".join(f"{count(n)} {viewer.t(LOOKS[Status(status)].text)}" for status, n in group.deliveries.items())
