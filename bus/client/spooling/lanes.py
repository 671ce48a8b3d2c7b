"""The lanes of a producer's spool: one out for each destination, and one for what is refused for good."""

from __future__ import annotations

from typing import Final

import msgspec

CONSUMER: Final = "send"
OUT: Final = "out/"
"""Each destination has a lane of its own, so that one that is refused or slowed down holds up no other."""
REJECTED: Final = "rejected"
_ALONE: Final = "/alone"


def lane_of(destination: str, *, alone: bool = False) -> str:
    """Return the lane of a message; what a producer sends alone waits for nothing else, and nothing for it."""
    return f"{OUT}{destination}{_ALONE}" if alone else f"{OUT}{destination}"


def destination_of(lane: str) -> str:
    """Return the destination of a lane out."""
    return lane.removeprefix(OUT).removesuffix(_ALONE)


class RejectedRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record of the ``rejected`` lane: the line as it was, and why the receiver will never take it."""

    line: bytes
    status: int
    reason: str
    at: int


encode_rejected: Final = msgspec.msgpack.Encoder().encode
decode_rejected: Final = msgspec.msgpack.Decoder(RejectedRecord).decode
