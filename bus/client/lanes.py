"""The lanes of a producer's spool: one out for each destination, and one for what is refused for good."""

from __future__ import annotations

from typing import Final

import msgspec

CONSUMER: Final = "send"
OUT: Final = "out/"
"""Each destination has a lane of its own, so that one that is refused or slowed down holds up no other."""
REJECTED: Final = "rejected"


class Rejected(msgspec.Struct, frozen=True, array_like=True):
    """A record of the ``rejected`` lane: the line as it was, and why the receiver will never take it."""

    line: bytes
    status: int
    reason: str
    at: int


encode_rejected: Final = msgspec.msgpack.Encoder().encode
decode_rejected: Final = msgspec.msgpack.Decoder(Rejected).decode
