"""Stores keep messages in partitions that are dropped whole: one for each day of ids and retention class."""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

from bus.domain.times import DAY, day_of, day_start

_NAME: Final = re.compile(r"(\d{8})-(\d{1,6})d")


class PartitionLabel(NamedTuple):
    """Key of a partition: its day, counted from the epoch, and its retention class."""

    day: int
    retention_days: int

    @classmethod
    def of_date(cls, date: str, retention_days: str) -> Self | None:
        """Return the label of a day as ``20260131``; None for a day that no calendar has."""
        try:
            return cls(day_start(date) // DAY, int(retention_days))
        except ValueError:
            return None

    @classmethod
    def of_name(cls, name: str) -> Self | None:
        """Undo ``name``; None for a text that names no partition."""
        match = _NAME.fullmatch(name)
        return cls.of_date(match[1], match[2]) if match else None

    @property
    def date(self) -> str:
        """The day as ``20260131``."""
        return day_of(self.day * DAY)

    @property
    def name(self) -> str:
        """The name that people see."""
        return f"{self.date}-{self.retention_days}d"
