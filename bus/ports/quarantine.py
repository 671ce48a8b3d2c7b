"""The quarantine of records that a transport delivered but that are not ours."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class ForeignRecord(NamedTuple):
    """A record that is no message of the bus.

    Attributes
    ----------
    transport
        The transport's name.
    place
        Its place, as the broker names it: topic, partition and offset, or the queue.
    reason
        Reason why it cannot be read, in words for people.
    headers
        The broker's headers or properties as text.
    payload
        Its bytes as they came.
    """

    transport: str
    place: str
    reason: str
    headers: dict[str, str]
    payload: bytes


class Quarantine(Protocol):
    """Keeps messages that cannot be delivered, counted and readable, so that those behind them are not blocked."""

    async def keep(self, foreign: ForeignRecord) -> None:
        """Set a record aside; durable when it returns, so that the broker's copy may be acked.

        Raises
        ------
        SpoolError
            It could not be kept; the broker's copy must stay.
        """
        ...
