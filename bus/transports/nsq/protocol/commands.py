"""Commands of NSQ's protocol as bytes; nothing here reads or writes a socket.

A command is a line that ends in a newline; those with a body are followed by its size and the body. Numbers are
big-endian.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Final

VERSION: Final = b"  V2"
NOP: Final = b"NOP\n"
CLS: Final = b"CLS\n"
MPUB_OVERHEAD: Final = 4
"""Bytes of an MPUB's body beside its messages and their sizes."""
SIZE_OVERHEAD: Final = 4
"""Bytes before each message of an MPUB."""

TRACE_OVERHEAD: Final = 8
"""Bytes of a traced publish beside its message."""

_traced: Final = struct.Struct(">IQ").pack
_size: Final = struct.Struct(">I").pack
_sizes: Final = struct.Struct(">II").pack


def identify(body: bytes) -> bytes:
    """Return IDENTIFY: the client's properties as a JSON body, with the features that it requests."""
    return b"IDENTIFY\n%b%b" % (_size(len(body)), body)


def auth(secret: bytes) -> bytes:
    """Show a secret to nsqd's auth server."""
    return b"AUTH\n%b%b" % (_size(len(secret)), secret)


class SubscribeMode(enum.StrEnum):
    """How a partition is subscribed to.

    In order one message comes at a time, whatever RDY says, and the next one once that is finished. In order, or with
    details, each message has its place in the log of the partition.
    """

    PLAIN = "SUB"
    ORDERED = "SUB_ORDERED"
    DETAILED = "SUB_ADVANCED"


def sub(topic: str, channel: str, partition: int | None = None, way: SubscribeMode = SubscribeMode.PLAIN) -> bytes:
    """Subscribe the connection; nsqd makes a channel that is not there, and a topic unless it has partitions."""
    words = [way.value, topic, channel]
    if partition is not None:
        words.append(str(partition))
    return f"{' '.join(words)}\n".encode("ascii")


def mpub(topic: str, bodies: Sequence[bytes], partition: int | None = None) -> bytes:
    """Publish messages, all or none unless nsqd's disk fails."""
    size = MPUB_OVERHEAD + SIZE_OVERHEAD * len(bodies)
    target = topic if partition is None else f"{topic} {partition}"
    parts = [b"MPUB %b\n" % target.encode("ascii"), b""]
    for body in bodies:
        length = len(body)
        size += length
        parts += (_size(length), body)
    parts[1] = _sizes(size, len(bodies))
    return b"".join(parts)


def pub_trace(topic: str, partition: int, trace: int, body: bytes) -> bytes:
    """Publish one message with a trace id, not 0; the answer is read by ``frames.read_traced``."""
    line = f"PUB_TRACE {topic} {partition}\n".encode("ascii")
    return b"".join((line, _traced(TRACE_OVERHEAD + len(body), trace), body))


def rdy(count: int) -> bytes:
    """Allow so many messages in flight on the connection."""
    return b"RDY %d\n" % count


# Ids are 16 bytes, of which any may be a space or the end of a line in the fork.


def fin(message_id: bytes) -> bytes:
    """Finish a message."""
    return b"FIN %b\n" % message_id


def req(message_id: bytes, delay: int = 0) -> bytes:
    """Give a message back, to be delivered again after ``delay`` milliseconds."""
    return b"REQ %b %d\n" % (message_id, delay)


def touch(message_id: bytes) -> bytes:
    """Restart a message's time-out."""
    return b"TOUCH %b\n" % message_id
