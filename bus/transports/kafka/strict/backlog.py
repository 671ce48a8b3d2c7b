"""A subscription's backlog in a topic, read from it: offsets alone count ends of transactions as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bus.ports.transport import Lag
from bus.transports.kafka.codec import read_record
from bus.transports.kafka.commits import Commit
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.names import group_of
from bus.transports.kafka.protocol.metadata import layout_of
from bus.transports.kafka.protocol.requests import LATEST, committed, offsets
from bus.transports.kafka.strict.copies import PARTITION, committed_from


async def backlog(cluster: Cluster, topic: str, subscription: str, confirmed: int = 0) -> Lag | None:
    """Return a topic's records beyond a subscription's commit, None when they cannot be counted.

    Nothing is left only when the broker that leads the topic has all that was confirmed and nothing but aborted
    transactions from the commit to its end. A transaction that is undecided counts as messages, since it may be
    committed yet; its broker aborts it when its time is up. More than fits into one answer is estimated, from above.

    Parameters
    ----------
    confirmed
        The offset below which everything is known to have been confirmed.
    """
    layout = await layout_of(cluster, topic)
    leader = layout.leaders.get(PARTITION) if layout is not None else None
    if layout is None or leader is None:
        return None
    end = (await offsets(cluster, {topic: layout}, LATEST))[topic].get(PARTITION, -1)
    commit = (await committed(cluster, group_of(topic, subscription), topic, layout)).get(PARTITION)
    if commit is None or end < confirmed:
        return None
    return await _left(cluster, leader, topic, commit, end)


async def _left(cluster: Cluster, leader: int, topic: str, commit: Commit, end: int) -> Lag:
    """Read on to the first message that is not finished, and count."""
    place = commit.offset
    while place < end:
        stretch = await committed_from(cluster, leader, topic, place)
        waiting = [record for record in stretch.records if not commit.is_done(record.offset)]
        rest = max(0, end - stretch.next)
        if waiting or stretch.next == place:
            return Lag(len(waiting) + rest, _oldest(waiting))
        place = stretch.next
    return Lag(0, None)


def _oldest(waiting: Sequence[Any]) -> int:
    """Return when the first of the messages was received; 0 when that is not known."""
    try:
        return read_record(waiting[0].headers, waiting[0].value).received_at
    except (IndexError, ValueError):
        return 0
