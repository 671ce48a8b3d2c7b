"""The fork's TCP protocol by hand: what goes over a socket, without a client's opinion."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, Self

from tests.doubles.youzan.running import HOST

PATIENCE = 5.0
RESPONSE, ERROR, MESSAGE = 0, 1, 2


class Frame(NamedTuple):
    kind: int
    data: bytes


class Trace(NamedTuple):
    """The reply to a traced publish."""

    id: int
    trace: int
    offset: int
    size: int


class Received(NamedTuple):
    """A message; ``ext`` is None where its version says that it has no header."""

    attempts: int
    id: bytes
    body: bytes
    ext: bytes | None = None
    offset: int | None = None
    size: int | None = None

    @property
    def trace(self) -> int:
        return int.from_bytes(self.id[8:], "big")


class RawNsq:
    """One connection, identified with whatever is given."""

    def __init__(self, port: int, **identify: object) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=PATIENCE)
        self._socket.sendall(b"  V2")
        if identify:
            assert self.ask(b"IDENTIFY", json.dumps(identify).encode()) == Frame(RESPONSE, b"OK")

    def send(self, line: bytes, body: bytes | None = None) -> None:
        length = b"" if body is None else struct.pack(">I", len(body))
        self._socket.sendall(line + b"\n" + length + (body or b""))

    def frame(self) -> Frame:
        size, kind = struct.unpack(">ii", self._exactly(8))
        return Frame(kind, self._exactly(size - 4))

    def ask(self, line: bytes, body: bytes | None = None) -> Frame:
        self.send(line, body)
        return self.frame()

    def publish(self, line: bytes, body: bytes) -> bytes:
        answer = self.ask(line, body)
        assert answer.kind == RESPONSE, answer
        return answer.data

    def traced(self, line: bytes, body: bytes) -> Trace:
        answer = self.publish(line, body)
        assert (len(answer), answer[:2]) == (30, b"OK")
        return Trace(*struct.unpack(">QQQI", answer[2:]))

    def subscribe(self, line: bytes, ready: int = 1) -> RawNsq:
        assert self.ask(line) == Frame(RESPONSE, b"OK")
        self.send(b"RDY %d" % ready)
        return self

    def message(self, *, extended: bool = False, details: bool = False) -> Received:
        answer = self.frame()
        assert answer.kind == MESSAGE, answer
        rest = answer.data[26:]
        ext, offset, size = None, None, None
        if extended:
            version, rest = rest[0], rest[1:]
            if version:
                length = int.from_bytes(rest[:2], "big")
                ext, rest = rest[2 : 2 + length], rest[2 + length :]
        if details:
            offset, size = struct.unpack(">QI", rest[:12])
            rest = rest[12:]
        attempts = int.from_bytes(answer.data[8:10], "big")
        return Received(attempts, answer.data[10:26], rest, ext, offset, size)

    def finish(self, message: Received) -> None:
        self.send(b"FIN " + message.id)

    def is_silent(self) -> bool:
        """Whether nothing was sent that is not read yet; to be asked after something that came later was seen."""
        self._socket.settimeout(0.05)
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return True
        finally:
            self._socket.settimeout(PATIENCE)

    def is_closed(self) -> bool:
        """Whether the server closes; waits for it."""
        with suppress(ConnectionResetError):
            return self._socket.recv(1) == b""
        return True

    def is_open(self) -> bool:
        """Whether the server still takes commands: it complains of a wrong one, and closes only then."""
        answer = self.ask(b"OPEN?")
        return answer == Frame(ERROR, b"E_INVALID invalid command OPEN?")

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self._socket.recv(count - len(found))
            assert part, f"closed after {found!r}"
            found += part
        return found


def several(items: Iterable[bytes]) -> bytes:
    """Return the body of an MPUB."""
    listed = list(items)
    return struct.pack(">I", len(listed)) + b"".join(struct.pack(">I", len(one)) + one for one in listed)


def traced(trace: int, body: bytes) -> bytes:
    """Return a body with its trace id."""
    return struct.pack(">Q", trace) + body


def extended(header: object, body: bytes) -> bytes:
    """Return a body with its header."""
    text = json.dumps(header).encode()
    return struct.pack(">H", len(text)) + text + body
