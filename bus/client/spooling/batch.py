"""What goes to a receiver in one request."""

from __future__ import annotations

from typing import NamedTuple

from bus.ports.spool import Record


class Batch(NamedTuple):
    """Claimed records and the ids in their lines."""

    records: list[Record]
    ids: list[str]

    @property
    def lines(self) -> list[bytes]:
        """What is posted."""
        return [record.payload for record in self.records]
