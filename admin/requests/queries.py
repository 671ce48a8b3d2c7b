"""Searches and exports as queries of a URL, and the range that a page has searched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import ConfigDict, Field

from admin.models.responses.messages import ArchivedView, SearchedView
from admin.models.selection import SelectionBody
from admin.showing.archives import ArchivedDay
from bus.domain.times import format_time
from bus.ports.store import SearchedRange


class SelectionQuery(SelectionBody):
    """A selection in a URL; names that are not known are left alone, as in every URL."""

    model_config = ConfigDict(extra="ignore")


class SearchQuery(SelectionQuery):
    """One page of a search."""

    cursor: str | None = None
    limit: int = Field(default=50, ge=1, le=1000)


class ExportQuery(SelectionQuery):
    """An export of a whole selection."""

    format: Literal["csv", "ndjson"] = "ndjson"
    bodies: bool = Field(default=False, description="with the messages' bodies; ndjson only, and on record")


def searched_view(searched: SearchedRange, archived: Sequence[ArchivedDay]) -> SearchedView:
    """Return the range that a page has searched, and the days in it that were archived and dropped."""
    return SearchedView(
        since=_time(searched.since),
        until=_time(searched.before),
        complete=searched.stop is None,
        reason=searched.stop,
        archived=[ArchivedView(partition=day.partition, lake=day.lake or None) for day in archived],
    )


def _time(time: int | None) -> str | None:
    """Return a time; null for none, and for one past the year 9999, which a made-up cursor may have."""
    try:
        return None if time is None else format_time(time)
    except OverflowError:
        return None
