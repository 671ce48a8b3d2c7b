"""Requests that are answered without an application: no scope, no task and no future for each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from bus.errors import BusError
from bus.http.asgi import JSON, Field, encode
from bus.http.problem import CONTENT_TYPE, Problem, failure, fields_of, problem_of

_log = logging.getLogger(__name__)


class PendingRequest(Protocol):
    """A request that waits for its answer, which is given once."""

    def answer(self, status: int, content: bytes, *fields: Field) -> None:
        """Answer with JSON, and these header fields."""
        ...

    def refuse(self, error: Exception) -> None:
        """Answer with the problem document of an error."""
        ...


class RequestHandler(Protocol):
    """Who takes one request whose head it knows."""

    def take(self, body: bytes, request: PendingRequest) -> None:
        """Take the whole body, and answer in a later turn of the loop.

        Raises
        ------
        BusError
            Why it is refused; then there is no other answer.
        """
        ...


class Endpoint(Protocol):
    """Who takes some requests itself; all others are the application's."""

    def begin(self, method: bytes, target: bytes, headers: Sequence[Field]) -> RequestHandler | None:
        """Return who takes the request with this head, None when the application has to.

        What the head tells to be refused is the application's as well, so that it is said in one place.
        """
        ...


class Connection(Protocol):
    """What an exchange needs of its connection."""

    url: bytes

    @property
    def usual_fields(self) -> Sequence[Field]:
        """Fields of every answer's head."""
        ...

    def soon(self, refusing: Exchange, error: Exception) -> None:
        """Have a request refused in the next turn of the loop."""
        ...

    def respond(self, answer: bytes, *, keep_alive: bool) -> None:
        """Write a whole answer, and go on with what waits behind it."""
        ...


class _NoWaiter:
    """What is set to wake an application; here is none."""

    def set(self) -> None:
        """Wake nobody."""


class Exchange:
    """A request that a taker has, and its answer.

    To uvicorn's protocol it is one of its own cycles: what has no underscore is what that, and ours, look at.
    """

    __slots__ = (
        "_connection",
        "_taker",
        "body",
        "disconnected",
        "keep_alive",
        "response_complete",
        "response_started",
        "scope",
    )
    message_event: Final = _NoWaiter()

    def __init__(self, connection: Connection, taker: RequestHandler, scope: object, *, keep_alive: bool) -> None:
        self._connection = connection
        self._taker: RequestHandler | None = taker
        self.body: bytes | bytearray = b""
        self.scope = scope
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_started = False
        self.response_complete = False

    def add(self, piece: bytes) -> None:
        """Take a piece of the body; the taker has seen to it that the whole is not too large."""
        if not self.body:
            self.body = piece
            return
        if isinstance(self.body, bytes):
            self.body = bytearray(self.body)
        self.body += piece

    def run(self) -> None:
        """Give the whole request to its taker."""
        # Neither keeps the other alive: what is done with goes without the garbage collector.
        taker, self._taker = self._taker, None
        body, self.body = bytes(self.body), b""
        assert taker is not None  # noqa: S101 - a request is whole once
        try:
            taker.take(body, self)
        except BusError as error:
            self._connection.soon(self, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, the peer gets an answer
            _log.exception("POST %s failed", self._connection.url.partition(b"?")[0][:200].decode("latin-1"))
            self._connection.soon(self, error)

    def answer(self, status: int, content: bytes, *fields: Field) -> None:
        """Answer with JSON, and these header fields."""
        self._answer(status, content, JSON, *fields)

    def refuse(self, error: Exception) -> None:
        """Answer with the problem document of an error."""
        found = problem_of(error) if isinstance(error, BusError) else failure()
        self._answer(found.status, encode(found), CONTENT_TYPE, *fields_of(found))

    def _answer(self, status: int, content: bytes, content_type: str, *fields: Field) -> None:
        self.response_started = self.response_complete = True
        usual = tuple(self._connection.usual_fields)
        head = _head(status, content_type, len(content), usual, fields, keep_alive=self.keep_alive)
        self._connection.respond(head + content, keep_alive=self.keep_alive)


@lru_cache(maxsize=64)
def _head(
    status: int, content_type: str, size: int, usual: tuple[Field, ...], fields: tuple[Field, ...], *, keep_alive: bool
) -> bytes:
    """Return the head of an answer; that of an accepted message changes with the date."""
    own = ((b"content-type", content_type.encode()), (b"content-length", b"%d" % size))
    lines = [b"%s: %s\r\n" % field for field in (*usual, *own, *fields)]
    return b"".join([STATUS_LINE[status], *lines, b"\r\n" if keep_alive else b"connection: close\r\n\r\n"])


def refusal_of(found: Problem, usual: Sequence[Field], *, has_content: bool) -> bytes:
    """Return the last answer of a connection."""
    content = encode(found)
    fields = tuple(usual), tuple(fields_of(found))
    head = _head(found.status, CONTENT_TYPE, len(content), *fields, keep_alive=False)
    return head + content if has_content else head
