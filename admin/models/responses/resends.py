"""Bulk resends and discards."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import View
from admin.models.responses.messages import MessageRow
from admin.repair.jobs import Counts, Kind

Filter = dict[str, str]


class NewFailuresView(View, kw_only=True):
    """Deliveries that failed since a job was created and match its filter without an upper time."""

    count: int
    complete: bool


class ResendView(View, kw_only=True):
    """A job's progress and counts."""

    id: str
    kind: Kind
    state: str
    by: str
    reason: str
    rate: float | None
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    filter: Filter
    counts: Counts
    balanced: bool
    total: int | None
    seconds_left: float | None
    rerun_of: str | None
    outcomes: list[str]
    reruns: list[str]
    new_failures: NewFailuresView | msgspec.UnsetType | None = msgspec.UNSET


class CureView(View, kw_only=True):
    """A job under way that cures an alarm: ``ended`` of its ``total`` deliveries, which is null while it selects."""

    id: str
    kind: Kind
    state: str
    by: str
    ended: int
    total: int | None


class PreviewView(View, kw_only=True):
    """The count of a dry run; ``filter`` selects exactly these deliveries."""

    count: int
    sample: list[MessageRow]
    filter: Filter
    complete: bool
    counted_since: str | None


class JobView(View, kw_only=True):
    """A new job; ``rerun_of`` is the one whose items it resends again."""

    id: str
    rerun_of: str | msgspec.UnsetType = msgspec.UNSET
