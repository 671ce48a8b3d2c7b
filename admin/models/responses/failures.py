"""Failures, grouped."""

from __future__ import annotations

from admin.models.responses.base import Listing, View
from bus.localized_text import LocalizedText


class FailureGroupView(View, kw_only=True):
    """Deliveries of one subscription that fail alike; ``filter`` selects exactly these.

    ``example`` is the error of the message ``sample``, the newest one; ``signature`` the part that all errors share.
    """

    destination: str
    subscription: str
    signature: str
    example: str
    advice: str
    advice_text: LocalizedText | None
    count: int
    deliveries: dict[str, int]
    first_seen: str
    last_seen: str
    sample: str
    filter: dict[str, str]


class FailuresView(Listing[FailureGroupView], kw_only=True):
    """The groups, the largest first, and whether these are all."""

    complete: bool
    complete_since: str | None
