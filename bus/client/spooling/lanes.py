"""The streams of a producer's spool: one for each destination, and one for permanently rejected messages."""

from __future__ import annotations

from typing import Final

import msgspec

CONSUMER: Final = "send"
OUT: Final = "out/"
"""Each destination has a stream of its own, so that one that is refused or slowed down delays no other."""
REJECTED: Final = "rejected"
_ALONE: Final = "/alone"


def lane_of(destination: str, *, alone: bool = False) -> str:
    """Return the stream of a message; an exclusive producer's messages have their own, which waits for no other."""
    return f"{OUT}{destination}{_ALONE}" if alone else f"{OUT}{destination}"


def destination_of(lane: str) -> str:
    """Return the destination of an outgoing stream."""
    return lane.removeprefix(OUT).removesuffix(_ALONE)


class RejectedRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of the ``rejected`` stream: the original line, and why the receiver will never accept it."""

    line: bytes
    status: int
    reason: str
    at: int


encode_rejected: Final = msgspec.msgpack.Encoder().encode
decode_rejected: Final = msgspec.msgpack.Decoder(RejectedRecord).decode
