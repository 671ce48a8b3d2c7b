"""Partitions and what names them: the day of the ids, and the retention class."""

from __future__ import annotations

import re
from typing import Final

from bus.domain.identity import id_time, parse_id
from bus.domain.times import DAY, day_of
from bus.domain.tracing.partition import PartitionLabel

_TRACES: Final = re.compile(r"traces_(\d{8})_(\d+)d")
_BODIES: Final = re.compile(r"bodies_(\d{8})_(\d+)d")


class Label(PartitionLabel):
    """The name of a partition."""

    __slots__ = ()

    @property
    def traces(self) -> str:
        """The collection of its traces."""
        return f"traces_{self.date}_{self.retention_days}d"

    @property
    def bodies(self) -> str:
        """The collection of its messages' bodies."""
        return f"bodies_{self.date}_{self.retention_days}d"


def label_of(message_id: str, retention_days: int) -> Label:
    """Return the partition of an id."""
    return Label(id_time(message_id) // DAY, retention_days)


def day_of_id(text: str) -> tuple[str, int] | None:
    """Return an id in its canonical spelling and its day; None when the text is no id that could be stored."""
    try:
        message_id = parse_id(text)
        day = id_time(message_id) // DAY
        day_of(day * DAY)
    except (ValueError, OverflowError):
        return None
    return message_id, day


def label_of_traces(collection: str) -> Label | None:
    """Return the partition whose traces a collection has; None for any other collection."""
    return _label(_TRACES.fullmatch(collection))


def label_of_bodies(collection: str) -> Label | None:
    """Return the partition whose bodies a collection has; None for any other collection."""
    return _label(_BODIES.fullmatch(collection))


def lane_name(destination: str, subscription: str) -> str:
    """Return one text for a subscription; a destination's code has no ``/``."""
    return f"{destination}/{subscription}"


def lane_of(name: str) -> tuple[str, str]:
    """Undo ``lane_name``."""
    destination, _, subscription = name.partition("/")
    return destination, subscription


def _label(match: re.Match[str] | None) -> Label | None:
    return Label.of_date(match[1], match[2]) if match else None
