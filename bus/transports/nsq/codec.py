"""The body of NSQ for a message of the bus, as NSQ has no headers: a mark, a version, the encoded message.

The encoded message is the one that rests in spools, so nothing is encoded again.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.message import Message, decode_message

_MARK: Final = b"\x00pier"
_VERSION: Final = 1
HEADER: Final = _MARK + bytes([_VERSION])


def wrap(payload: bytes) -> bytes:
    """Return the body of an encoded message."""
    return HEADER + payload


def unwrap(body: bytes) -> Message:
    """Undo ``wrap``.

    Raises
    ------
    ValueError
        It is not a message of the bus; the text says why.
    """
    if not body.startswith(HEADER):
        raise ValueError(_why(body))
    try:
        return decode_message(body[len(HEADER) :])
    except msgspec.DecodeError as error:
        raise ValueError(f"marked as a message of the bus, and damaged: {error}") from error


def _why(body: bytes) -> str:
    if body.startswith(_MARK) and len(body) > len(_MARK):
        return f"an envelope of version {body[len(_MARK)]}, and this bus reads version {_VERSION}"
    return "not a message of the bus: it does not begin with the bus's mark"
