"""The finished prefix of one partition, and its commit.

Records finish in any order, and Kafka keeps one offset per partition, below which everything is finished. What is
finished beyond it goes into the commit's metadata, as a bitmap, so that who takes the partition over repeats little.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Final, NamedTuple

METADATA_BYTES: Final = 4000
"""The longest metadata written; Kafka accepts 4096 bytes by default (``offset.metadata.max.bytes``)."""
ANYWHERE: Final = 2**31
"""A reach that covers every record there is."""
_VERSION: Final = "1"
_LARGEST_BITMAP: Final = 1_048_576


class Commit(NamedTuple):
    """The progress of reading a partition.

    Attributes
    ----------
    offset
        Every record below it is finished.
    reach
        How many offsets from there on its owner may have handed to a subscriber; 0 when it has had no owner yet.
    floor
        No record from there on was received earlier than this (ms); 0 when nothing is known of them.
    done
        A bitmap of what is finished from there on: bit 0 is ``offset`` itself.
    topic
        The id of the topic that it is of, which differs from the one of a topic of that name made later; empty when
        it is not known.
    """

    offset: int
    reach: int = 0
    floor: int = 0
    done: int = 0
    topic: str = ""

    def is_done(self, offset: int) -> bool:
        """Whether a record from ``offset`` on is finished."""
        return offset >= self.offset and bool(self.done >> (offset - self.offset) & 1)


def encode_commit(commit: Commit, *, limit: int = METADATA_BYTES) -> str:
    """Return the metadata of a commit, at most ``limit`` bytes of ASCII.

    When not all of the bitmap fits, its far end is left out: those records are delivered again.
    """
    bitmap = commit.done.to_bytes((commit.done.bit_length() + 7) // 8, "little")
    while len(text := _encode(commit, bitmap)) > limit:
        bitmap = bitmap[: len(bitmap) // 2]
    return text


def decode_commit(offset: int, metadata: str) -> Commit:
    """Undo ``encode_commit``; metadata that is not ours says that anything may have been handed out."""
    try:
        version, topic, reach, floor, packed = metadata.split(" ")
        bitmap = _unpack(packed)
        commit = Commit(offset, int(reach), int(floor), int.from_bytes(bitmap, "little"), topic)
    except (ValueError, zlib.error):
        return Commit(offset, reach=ANYWHERE)
    return commit if version == _VERSION else Commit(offset, reach=ANYWHERE)


def _encode(commit: Commit, bitmap: bytes) -> str:
    packed = base64.b64encode(zlib.compress(bitmap)).decode() if bitmap else ""
    return f"{_VERSION} {commit.topic} {commit.reach} {commit.floor} {packed}"


def _unpack(packed: str) -> bytes:
    try:
        data = base64.b64decode(packed, validate=True)
    except binascii.Error as error:
        raise ValueError(f"no bitmap: {error}") from error
    return zlib.decompressobj().decompress(data, _LARGEST_BITMAP) if data else b""


class Window:
    """One partition, from its assignment to this consumer until its revocation.

    Records are admitted in the order of the log and finished in any order. At most ``limit`` offsets beyond the
    commit that Kafka has confirmed are admitted, so that a commit bounds how far its owner may have read.

    Parameters
    ----------
    start
        The commit that the partition is taken over with.
    limit
        In offsets.
    end
        The end of the log when the partition was taken over: no consumer has seen later records.
    """

    def __init__(self, start: Commit, limit: int, end: int) -> None:
        self._start = start
        self._limit = limit
        self._confirmed = start.offset
        self._next = start.offset
        self._suspect_until = min(start.offset + start.reach, end)
        self._open: dict[int, int] = {}
        self._published = 0
        self._late = 0

    @property
    def next(self) -> int:
        """The offset after the last record admitted."""
        return self._next

    @property
    def closes_at(self) -> int:
        """The first offset that is not admitted until Kafka confirms a later commit."""
        return self._confirmed + self._limit

    @property
    def unfinished(self) -> int:
        """How many admitted records are not finished."""
        return len(self._open)

    def admit(self, offset: int, received_at: int, published_at: int) -> bool:
        """Note the next record of the log (times in ms); False when an earlier owner finished it."""
        self._next = offset + 1
        self._published = published_at
        self._late = max(self._late, published_at - received_at)
        if self._start.is_done(offset):
            return False
        self._open[offset] = received_at
        return True

    def is_suspect(self, offset: int) -> bool:
        """Whether an earlier owner may have handed the record out."""
        return offset < self._suspect_until

    def is_open(self, offset: int) -> bool:
        """Whether a record was admitted and is not finished."""
        return offset in self._open

    def finish(self, offset: int) -> bool:
        """Finish a record; False when it is finished already or was not admitted."""
        return self._open.pop(offset, None) is not None

    def anew(self, offset: int, end: int) -> Window:
        """Return a window for the same partition after its log was made anew, without the earlier state."""
        return Window(Commit(offset, ANYWHERE, topic=self._start.topic), self._limit, end)

    def ownership(self) -> Commit:
        """Return the commit by which a new owner says that it may hand out records from now on."""
        return self._start._replace(reach=max(self._limit, self._suspect_until - self._start.offset))

    def commit(self) -> Commit:
        """Return the commit for the finished records, from which the next owner continues."""
        commit = self._finished()
        return commit._replace(reach=max(self._limit, self._suspect_until - commit.offset))

    def last_commit(self, handed_out: int) -> Commit:
        """Return how far it is finished, for an owner that leaves; ``handed_out`` is the offset after its last one."""
        commit = self._finished()
        return commit._replace(reach=max(0, handed_out - commit.offset, self._suspect_until - commit.offset))

    def confirm(self, commit: Commit) -> None:
        """Take note that Kafka has the commit."""
        self._confirmed = max(self._confirmed, commit.offset)

    def _finished(self) -> Commit:
        # Records are admitted in ascending order, so the first one left is the lowest.
        prefix = next(iter(self._open), self._next)
        span = self._next - prefix
        unfinished = bytearray((span + 7) // 8)
        for offset in self._open:
            place = offset - prefix
            unfinished[place >> 3] |= 1 << (place & 7)
        finished = ((1 << span) - 1) ^ int.from_bytes(unfinished, "little")
        inherited = self._start.done >> (prefix - self._start.offset)
        return self._start._replace(offset=prefix, floor=self._floor(), done=finished | inherited)

    def _floor(self) -> int:
        """Return since when the oldest unfinished record has been waiting, those included that were not fetched."""
        if self._next == self._start.offset:
            return self._start.floor
        return min([*self._open.values(), self._published - self._late])
