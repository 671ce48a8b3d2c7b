"""The layout of a topic's partitions, from the responses of nsqlookupds; rules without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from bus.domain.routing.answers import Answer, Peer
from bus.transports.nsq.config import Address

NO_PORT = 0
_UNKNOWN = "Key not found"  # the fork's refusal of a producer's lookup; that of a topic without channels is another
MOST_PARTITIONS = 1023  # a message's id has ten bits for its partition
_BELIEVED: Final = 3
"""How many answers in a row have to say that a topic has no partitions any more."""


class Place(NamedTuple):
    """The address of an nsqd: for its protocol, and the port of its HTTP API."""

    tcp: Address
    http_port: int

    @property
    def http(self) -> Address:
        """Where its HTTP API is."""
        return Address(self.tcp.host, self.http_port)


class Layout(msgspec.Struct, frozen=True):
    """The layout of a topic according to the last good answers.

    Attributes
    ----------
    readable
        The nsqd that leads each partition, from lookups for reading; a partition that is missing in the last one stays.
    writable
        The partitions that accept messages now, from lookups for writing.
    others
        Nsqds to read from whole: they have the topic, and no partition is known on them.
    count
        How many partitions the topic has, whether or not they are there; 0 while that is not known.
    is_ordered, is_extended, is_closed
        The topic's requirements: SUB_ORDERED, ``extend_support``, channels registered with nsqlookupd beforehand.
    speaks_fork
        Whether the answers are those of the fork, which has partitions for every topic that is there.
    is_unknown
        Whether the last lookup for writing found no such topic; then lookups for reading find nothing either.
    unread, unwritten
        Number of lookups for reading, and for writing, answered since without any of these partitions: by a stock
        nsqlookupd, to which the topic may have moved, or which was asked by mistake.
    """

    readable: Mapping[int, Place] = {}
    writable: Mapping[int, Place] = {}
    others: frozenset[Address] = frozenset()
    count: int = 0
    is_ordered: bool = False
    is_extended: bool = False
    is_closed: bool = False
    speaks_fork: bool = False
    is_unknown: bool = False
    unread: int = 0
    unwritten: int = 0

    @property
    def is_partitioned(self) -> bool:
        """Whether the topic is there, and has partitions."""
        return bool(self.readable or self.writable or self.count)

    @property
    def is_absent(self) -> bool:
        """Whether a cluster of the fork has no such topic, according to lookups for reading."""
        return self.speaks_fork and not self.is_partitioned and not self.others

    @property
    def numbers(self) -> set[int]:
        """All partitions of the topic; the partitions found while their number is not known."""
        return set(range(self.count)) or set(self.readable)

    @property
    def missing(self) -> tuple[int, ...]:
        """The partitions that there are and that take no messages now."""
        return tuple(number for number in range(self.count) if number not in self.writable)


def partition_of(key: str, count: int) -> int:
    """Return the partition of a key: CRC-32 of its UTF-8, modulo the number that the topic was made with.

    It never depends on which of them are there, so that a key stays where its earlier messages are.
    """
    return crc32(key.encode()) % count


def for_reading(known: Layout, answer: Answer) -> Layout:
    """Return a layout after an answer to a consumer's lookup."""
    if answer.refusal:
        return known
    if known.readable and not answer.is_partitioned and known.unread + 1 < _BELIEVED:
        return msgspec.structs.replace(known, unread=known.unread + 1)
    named = _partitions(answer)
    if known.is_unknown and answer.is_partitioned and not named and not answer.producers:
        return Layout(speaks_fork=True)  # it was deleted, and may be made anew
    if answer.partitions is None:
        kept: dict[int, Place] = {}
    else:
        kept = {number: place for number, place in known.readable.items() if not known.count or number < known.count}
    leading = {place.tcp for place in named.values()}
    others = {place.tcp for peer in answer.producers if (place := _place(peer)).tcp not in leading}
    return msgspec.structs.replace(
        known,
        readable=kept | named,
        others=frozenset(others),
        speaks_fork=answer.is_partitioned,
        unread=0,
    )


def for_writing(known: Layout, answer: Answer) -> Layout:
    """Return a layout after an answer to a producer's lookup.

    One that says that the topic has no channel yet leaves what is known of it as it is.
    """
    if answer.refusal:
        return msgspec.structs.replace(known, writable={}, is_unknown=answer.refusal == _UNKNOWN)
    if (known.count or known.writable) and not answer.is_partitioned and known.unwritten + 1 < _BELIEVED:
        return msgspec.structs.replace(known, unwritten=known.unwritten + 1)
    meta = answer.meta or {}
    told = _number(meta.get("partition_num"))
    # Their number never falls; an nsqlookupd that is behind may say less, and keys would change places and back.
    count = max(known.count, told if told <= MOST_PARTITIONS else 0) if answer.partitions is not None else told
    return msgspec.structs.replace(
        known,
        writable=_partitions(answer),
        is_unknown=False,
        unwritten=0,
        count=count,
        is_ordered=meta.get("ordered", known.is_ordered) is True,
        is_extended=meta.get("extend_support", known.is_extended) is True,
        is_closed=meta.get("disable_channel_auto_create", known.is_closed) is True,
    )


def _partitions(answer: Answer) -> dict[int, Place]:
    return {int(number): _place(peer) for number, peer in (answer.partitions or {}).items()}


def _place(peer: Peer) -> Place:
    return Place(Address(peer["broadcast_address"], peer["tcp_port"]), _number(peer.get("http_port")))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else NO_PORT
