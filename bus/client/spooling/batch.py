"""The batch of one request to a receiver."""

from __future__ import annotations

from typing import NamedTuple

from bus.client.spooling.line import Head
from bus.ports.spool import Record


class Batch(NamedTuple):
    """Claimed records and the heads of their lines."""

    records: list[Record]
    heads: list[Head]

    @property
    def lines(self) -> list[bytes]:
        """The lines of the request."""
        return [record.payload for record in self.records]
