"""The position of a message on its broker when a dispatcher received it, for its trace."""

from __future__ import annotations

from typing import NamedTuple


class Receipt(NamedTuple):
    """One receipt of a message, as the broker (NSQ) reported it.

    Attributes
    ----------
    server
        ``host:port`` that sent it.
    id
        The broker's own; numbers of 64 bits are decimal.
    at
        When the broker took it, by its clock: milliseconds since the epoch.
    times
        How often the broker has sent it.
    partition
        None where topics have none.
    trace_id
        The one that a producer sent to the broker, decimal; empty for none.
    offset, size
        Its offset and size in the partition's log, in bytes; None where the broker does not report them.
    """

    server: str
    id: str
    at: int
    times: int
    partition: int | None = None
    trace_id: str = ""
    offset: int | None = None
    size: int | None = None
