"""The selection of messages to read, the same for every store."""

from __future__ import annotations

import datetime as dt
from typing import Final, NamedTuple, Self

from bus.domain.times import DAY
from bus.domain.tracing.partition import PartitionLabel

_MILLISECOND: Final = dt.timedelta(milliseconds=1)
TEXTS: Final = (
    *("source", "biz_id", "key", "routing_key", "content_type", "traceparent", "tracestate"),
    *("original_id", "idempotency_key", "edited_from", "replay"),
)
"""Fields of a message that are called the same in every store and in ``schemas.MESSAGES``; empty when not given."""


class MessageSelection(NamedTuple):
    """The selection of messages.

    Attributes
    ----------
    since, before
        Range of the ids' times in ms, ``before`` exclusive; None for any.
    bodies
        Whether with their bodies.
    only
        The one partition to look into; None for all.
    """

    since: int | None
    before: int | None
    bodies: bool
    only: PartitionLabel | None

    @classmethod
    def between(
        cls, since: dt.datetime | None, before: dt.datetime | None, *, bodies: bool, only: PartitionLabel | None
    ) -> Self:
        """Return it for times as people give them."""
        return cls(_milliseconds(since), _milliseconds(before), bodies, only)

    def may_be_in(self, partition: PartitionLabel) -> bool:
        """Whether a partition can have such messages."""
        if self.only not in (None, partition):
            return False
        start = partition.day * DAY
        return (self.since is None or start + DAY > self.since) and (self.before is None or start < self.before)


def _milliseconds(time: dt.datetime | None) -> int | None:
    return None if time is None else (time - dt.datetime.fromtimestamp(0, dt.UTC)) // _MILLISECOND
