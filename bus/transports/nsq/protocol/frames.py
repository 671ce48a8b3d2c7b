"""Frames of NSQ's protocol out of a stream of bytes; nothing here reads or writes a socket.

A frame is its size, its type and its payload; a message frame's payload is read by ``read_message``.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from bus.transports.nsq.errors import ErrorFrame, NotNsq

RESPONSE: Final = 0
ERROR: Final = 1
MESSAGE: Final = 2
HEARTBEAT: Final = b"_heartbeat_"
LARGEST: Final = 64 * 2**20

_NO_HEADER: Final = b"\x00"
_HEADER_SIZE: Final = 2
_PLACE: Final = 12
_TYPES: Final = 3
_HEADER: Final = 8
_SIZE: Final = 4
_head: Final = struct.Struct(">II").unpack_from
_message_head: Final = struct.Struct(">qH16s")
_read_head: Final = _message_head.unpack_from
_OK: Final = b"OK"
_trace_answer: Final = struct.Struct(">2sQQQI")
_place: Final = struct.Struct(">QI").unpack_from
_two_numbers: Final = struct.Struct(">QQ").unpack
_TEXT: Final = b"0123456789abcdef"
MESSAGE_HEAD: Final = _message_head.size

Frame = tuple[int, bytes]
"""A frame's type and payload."""


class FrameReader:
    """Cuts a stream into frames, however it was split on its way.

    Parameters
    ----------
    largest
        Bytes of the largest frame that is accepted.
    """

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest = largest
        self._pieces: list[bytes] = []
        self._have = 0
        self._need = _HEADER

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that ``data`` completes, in order.

        Raises
        ------
        NotNsq
            The stream is no NSQ; each later call raises it as well.
        """
        if self._pieces:
            self._pieces.append(data)
            self._have += len(data)
            if self._have < self._need:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        frames: list[Frame] = []
        begin = 0
        while (rest := len(data) - begin) >= _HEADER:
            size, kind = _head(data, begin)
            end = begin + _SIZE + size
            if size < _SIZE or kind >= _TYPES or size > self._largest:
                raise _strange(size, kind)
            if end > len(data):
                self._keep(data, begin, _SIZE + size)
                return frames
            frames.append((kind, data[begin + _HEADER : end]))
            begin = end
        if rest:
            self._keep(data, begin, _HEADER)
        return frames

    def _keep(self, data: bytes, begin: int, need: int) -> None:
        rest = data[begin:]
        self._pieces.append(rest)
        self._have = len(rest)
        self._need = need


def first_frame(data: bytes) -> tuple[Frame, bytes] | None:
    """Cut one frame off, and return it with the bytes after it, which may be encrypted or compressed.

    None while it is not whole; raises ``NotNsq`` as ``FrameReader.feed`` does.
    """
    if len(data) < _HEADER:
        return None
    size, kind = _head(data, 0)
    end = _SIZE + size
    if size < _SIZE or kind >= _TYPES or size > LARGEST:
        raise _strange(size, kind)
    return ((kind, data[_HEADER:end]), data[end:]) if end <= len(data) else None


def _strange(size: int, kind: int) -> NotNsq:
    what = f"a frame of type {kind}" if kind >= _TYPES else f"a frame of {size} bytes"
    return NotNsq(f"not NSQ's protocol: {what}")


def read_message(payload: bytes) -> tuple[int, int, bytes]:
    """Return when a message was published (ns since the epoch), how often it was sent, and its id.

    Its body follows from ``MESSAGE_HEAD`` on. Raises ``NotNsq`` when the frame is too short.
    """
    if len(payload) < MESSAGE_HEAD:
        raise NotNsq(f"not NSQ's protocol: a message frame of {len(payload)} bytes")
    return _read_head(payload)


def numbers_of(message_id: bytes) -> tuple[int, int]:
    """Return the two numbers of an id of the fork: its internal id, and the trace id, 0 for none."""
    internal, trace = _two_numbers(message_id)
    return internal, trace


def name_of(message_id: bytes) -> str:
    """Return an id as people see it: stock NSQ's are text, the fork's two numbers, its internal id and the trace id."""
    if all(byte in _TEXT for byte in message_id):
        return message_id.decode("ascii")
    return "/".join(map(str, numbers_of(message_id)))


class Form(NamedTuple):
    """The fields between a message's head and its body, which depend on topic and subscription.

    Attributes
    ----------
    is_extended
        A header, on topics of the fork that have them.
    is_detailed
        Where the message is in the log of its partition, for ordered subscriptions.
    """

    is_extended: bool = False
    is_detailed: bool = False

    def body_at(self, payload: bytes) -> int:
        """Return where in the payload of a frame the body begins; raises ``NotNsq`` when that is behind its end."""
        begin = MESSAGE_HEAD
        if self.is_extended:
            begin += 1
            if payload[begin - 1 : begin] != _NO_HEADER:
                begin += _HEADER_SIZE + int.from_bytes(payload[begin : begin + _HEADER_SIZE], "big")
        if self.is_detailed:
            begin += _PLACE
        if begin > len(payload):
            raise NotNsq(f"not NSQ's protocol: a message frame of {len(payload)} bytes, whose body begins at {begin}")
        return begin

    def place_of(self, payload: bytes, body_at: int) -> tuple[int, int] | None:
        """Return a message's position in the log of its partition and its size there in bytes; None without details."""
        return _place(payload, body_at - _PLACE) if self.is_detailed else None


class TracedReply(NamedTuple):
    """nsqd's answer to a traced publish: its id, the trace id, and the message's position in the partition's log."""

    id: int
    trace: int
    offset: int
    size: int


def read_traced(answer: bytes) -> TracedReply:
    """Read the answer to a traced publish; raises ``NotNsq`` for another."""
    if len(answer) != _trace_answer.size or not answer.startswith(_OK):
        raise NotNsq(f"not NSQ's protocol: {answer[:60]!r} in answer to PUB_TRACE")
    return TracedReply(*_trace_answer.unpack(answer)[1:])


def read_error(payload: bytes) -> ErrorFrame:
    """Read an error frame: a code, and words after a space, which may be missing."""
    code, _, detail = payload.decode("utf-8", "replace").partition(" ")
    return ErrorFrame(code, detail)
