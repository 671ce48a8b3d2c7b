"""Vitals of a process: disks, local queues, breakers, orphaned queues and brokers."""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.delivery.delivery import Status

USED_SHARE: Final = "spool_share"
USED_RATE: Final = "rate"
USED_KEY_RATE: Final = "key_rate"
"""Reasons to refuse messages for now: their destination's share of the spool or its rate, or their key's rate."""


class SpoolFigures(msgspec.Struct, frozen=True, array_like=True):
    """One local queue: ``records`` and ``bytes`` of at most ``limit`` bytes.

    ``damaged`` records were set aside; ``oldest`` (ms) is when the oldest that waits was made, None for none.
    """

    records: int
    bytes: int
    limit: int
    damaged: int
    oldest: int | None

    @property
    def used(self) -> float:
        """The share of the limit that is in use."""
        return self.bytes / self.limit if self.limit else 0.0


class UnreachableProcess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process that cannot be reached, as the others write it into its document.

    ``last_seen_at`` (ms) is when it wrote its document last; ``records`` are in the queues on its disk. ``sharer`` is
    its name by which it shared slots, with the dispatchers ``shared_with``. ``has_ended`` means that its host refuses
    connections to it, or that another process has its URL; else it may run, and only be unreachable.
    """

    owner: str
    node: str
    url: str
    roles: tuple[str, ...]
    last_seen_at: int
    records: int
    sharer: str = ""
    shared_with: tuple[str, ...] = ()
    has_ended: bool = False


class DiskFigures(msgspec.Struct, frozen=True, array_like=True):
    """The disk that a directory of a process is on.

    Attributes
    ----------
    device
        Its number on that machine; directories on one disk have the same.
    total
        Bytes that may be used of it, those in use included.
    reserve
        Free bytes below which new messages are refused; 0 where none are kept.
    full_in
        In how many milliseconds only those will be free, at the recent rate; None without a forecast.
    """

    path: str
    device: int
    free: int
    total: int
    reserve: int = 0
    full_in: int | None = None

    @property
    def left(self) -> float:
        """The share of it that is free."""
        return self.free / self.total if self.total else 1.0


class NodeFigures(msgspec.Struct, frozen=True, array_like=True):
    """A node of a cluster of brokers, as its administration reports it.

    Attributes
    ----------
    partitions
        The nodes that it has lost sight of, though they ran on.
    memory_alarm, disk_alarm
        Whether it takes no messages for lack of memory, or of free disk space. Sizes are bytes, 0 where not reported.
    """

    name: str
    is_running: bool
    partitions: tuple[str, ...] = ()
    memory_alarm: bool = False
    disk_alarm: bool = False
    memory: int = 0
    memory_limit: int = 0
    disk_free: int = 0
    disk_limit: int = 0


class BrokerFigures(msgspec.Struct, frozen=True, array_like=True):
    """A cluster of brokers, as its administration reports it.

    Attributes
    ----------
    cluster
        Its name, as that of a part.
    in_flow
        How many of its ``connections`` it slows down or holds, 100 at most.
    ready, unacked
        Messages of the bus's ``queues`` that wait, and that consumers have; of very many queues those of the first.
    """

    cluster: str
    nodes: tuple[NodeFigures, ...] = ()
    connections: int = 0
    in_flow: int = 0
    queues: int = 0
    ready: int = 0
    unacked: int = 0


class BreakerFigures(msgspec.Struct, frozen=True, array_like=True):
    """A breaker that is not closed: ``open`` or ``half_open``.

    ``since`` (ms) it has not been closed; ``probe_at`` (ms) is when a probe may start. ``answered`` is the
    status of the last failure, None when there was no answer.
    """

    state: str
    since: int
    probe_at: int
    answered: int | None = None


class RejectedFigures(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a source to a destination that a receiver refused permanently, so that their producer keeps them.

    ``status`` and ``reason`` are those of the last; ``since`` and ``last`` (ms) are when the first and the last were
    refused, and ``example`` is the id of the last, or its biz id; empty where it had neither.
    """

    source: str
    destination: str
    status: int
    reason: str
    count: int
    since: int
    last: int = 0
    example: str = ""


class ProducerFigures(msgspec.Struct, frozen=True, array_like=True):
    """A producer, with its local queue as it reported it to a receiver, or as a sweeper saw it.

    Attributes
    ----------
    source
        Source of its messages; from the name of the directory, where a sweeper saw it.
    id
        That of the queue; empty for a producer that reported none.
    oldest
        For how long (ms) the first of its ``records`` has waited.
    path
        Path of the queue, if a sweeper saw it.
    agent, key
        Its ``User-Agent``, and the name of the key that it uses.
    seen_at
        When it reported last (ms); 0 where a sweeper saw it.
    messages
        Number sent to this receiver since that started, refused ones included.
    """

    source: str
    id: str
    records: int
    oldest: int
    path: str = ""
    agent: str = ""
    key: str = ""
    seen_at: int = 0
    messages: int = 0


class CertificateFigures(msgspec.Struct, frozen=True, array_like=True):
    """The certificate of a subscriber's ``HOST:PORT``, and when (ms) it ends."""

    host: str
    not_after: int


class ReplicaFigures(msgspec.Struct, frozen=True, array_like=True):
    """A member of the store's replica set: its state as MongoDB calls it, and how far (ms) it is behind the primary."""

    name: str
    state: str
    behind: int = 0


class StoreFigures(msgspec.Struct, frozen=True, array_like=True):
    """State of the store, as far as it reports it.

    Attributes
    ----------
    members
        Of a replica set.
    oplog
        How far back (ms) the oplog goes; None where that is not known. ``oplog_used`` is the share of it in use.
    bytes
        Of the files of an embedded store; ``log`` of the largest write-ahead log.
    unfolded
        For how long (ms) was written to that log since a checkpoint wrote to its file.
    """

    members: tuple[ReplicaFigures, ...] = ()
    oplog: int | None = None
    oplog_used: float = 0.0
    bytes: int = 0
    log: int = 0
    unfolded: int = 0


class TurnedAwayFigures(msgspec.Struct, frozen=True, array_like=True):
    """Messages that a receiver has refused for now since ``since`` (ms), and why.

    ``whose`` is the destination that has used up what it may take, or the name of a key; the last one was refused at
    ``last`` (ms), and was for ``destination``.
    """

    whose: str
    why: str
    count: int
    since: int
    last: int = 0
    destination: str = ""


class WorkerFigures(msgspec.Struct, frozen=True, array_like=True):
    """The slots of one subscription in one dispatcher.

    This dispatcher may use ``share`` of the ``total`` now, and uses ``in_use``; ``waiting`` deliveries are in memory.
    ``rate_wait`` is how many seconds the subscription's rate still holds them, 0 when it does not. Of processes that
    share slots each reports an equal part; ``lacks_slot`` marks one that found none free.
    """

    destination: str
    subscription: str
    in_use: int
    share: int
    total: int
    waiting: int
    rate_wait: float = 0.0
    lacks_slot: bool = False


class RecentAttempt(msgspec.Struct, frozen=True, array_like=True):
    """An attempt that was made a moment ago, and the status of its delivery since.

    ``started_at`` is in milliseconds since the epoch, ``duration`` in milliseconds.
    """

    message_id: str
    n: int
    started_at: int
    duration: float
    status_code: int | None
    error: str
    status: Status
    node: str


class Orphan(msgspec.Struct, frozen=True, array_like=True):
    """A queue of a dead process, and when (ms) it was last touched; ``kind`` is ``producer`` or a service's queue.

    ``records`` is what the last attempt to empty it left, None when none did; ``trouble`` is what stopped that one.
    """

    directory: str
    kind: str
    records: int | None
    bytes: int
    touched_at: int
    trouble: str
