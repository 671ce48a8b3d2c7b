"""The verdict of the poster's connection on raw responses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bus.ports.poster import PostFailure
from bus.posters.answer import Answer, AnswerLimits
from bus.posters.connection import Connection, Failure, Limits
from tests.harness.wire import JumpingLoop, Wire, jumping

OK: Final = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
_DEADLINE: Final = 5.0
_REQUEST: Final = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
_BODY: Final = b"x" * 100


@dataclass(frozen=True)
class Verdict:
    """What came of a request.

    Attributes
    ----------
    status
        Of the final response; None if there is none.
    body
        What was read of its content.
    failure
        Why there is no status.
    is_whole
        Whether the content came to its end.
    is_kept
        Whether another request goes over the same connection.
    retry_after
        The field Retry-After, the only one that deliveries use.
    """

    status: int | None = 200
    body: bytes = b"ok"
    failure: PostFailure | None = None
    is_whole: bool = True
    is_kept: bool = True
    retry_after: str | None = None

    def __str__(self) -> str:
        if self.failure is not None:
            return f"{self.failure.value}, closed"
        body = f"`{self.body[:20].decode('latin-1')!r}`" if self.body else "no content"
        parts = [
            str(self.status),
            body,
            "whole" if self.is_whole else "not whole",
            "kept" if self.is_kept else "closed",
        ]
        return ", ".join(parts) + (f", Retry-After `{self.retry_after}`" if self.retry_after else "")


def verdict_of(pieces: Sequence[bytes], *, ends: bool = False, is_sent: bool = True) -> Verdict:
    """Return the verdict on the pieces of a response.

    The server sends nothing more if it ``ends``, and has read only a part of the request unless ``is_sent``.
    """
    return jumping(lambda loop: _verdict_of(loop, pieces, ends=ends, is_sent=is_sent))


async def _verdict_of(loop: JumpingLoop, pieces: Sequence[bytes], *, ends: bool, is_sent: bool) -> Verdict:
    connection = Connection(lambda: 1 + loop.time(), Limits(), AnswerLimits(), set(), lambda _: None, "a.example:80")
    wire = Wire(loop, connection)
    if not is_sent:
        wire.stall()
    begun = connection.exchange(_REQUEST, b"" if is_sent else _BODY, 1.0, 1 + _DEADLINE, _DEADLINE)
    for piece in pieces:
        wire.send(piece)
        if len(piece) > 1:
            await loop.settle()
    if ends:
        wire.finish()
    failure = await begun
    await loop.settle()
    is_kept = connection.reusable and not connection.closed
    found = _verdict(connection.answer, failure, is_kept=is_kept)
    assert wire.heard == _REQUEST
    if is_kept:
        await _check_next(loop, wire, connection)
    else:
        assert wire.closed_at is not None
    return found


def _verdict(answer: Answer, failure: Failure | None, *, is_kept: bool) -> Verdict:
    if failure is not None:
        assert not is_kept
        return Verdict(None, b"", failure.kind, is_whole=False, is_kept=False)
    body = bytes(answer.body)
    is_whole = answer.complete and answer.stored == len(body)
    return Verdict(answer.status, body, None, is_whole, is_kept, answer.retry_after)


async def _check_next(loop: JumpingLoop, wire: Wire, connection: Connection) -> None:
    """Check that the next request over the connection gets the next response."""
    now = 1 + loop.time()
    begun = connection.exchange(_REQUEST, b"", now, now + _DEADLINE, _DEADLINE)
    wire.send(OK.replace(b"200 OK", b"299 OK"))
    assert await begun is None
    assert (connection.answer.status, bytes(connection.answer.body)) == (299, b"ok")
