"""One answer of a hostile server, read without I/O: bounded in every dimension, exact about where it ends."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpResponseParser

_CONTINUE: Final = 100
_FIRST_FINAL: Final = 200
_FIRST_FAILURE: Final = 300
_LONGEST_FIELD: Final = 128
_SMALL: Final = 256  # a head of so many bytes is within any sensible limit
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_SPACE_FIRST: Final = re.compile(rb"[^\n]*\n \r?\n")  # where the parser ends a head too
_INTERIM: Final = re.compile(rb"HTTP/[0-9.]+ 1")


class AnswerLimits(NamedTuple):
    """How much of an answer is read, in bytes and fields.

    Attributes
    ----------
    head
        Bytes of the status line and headers, interim (1xx) answers included; more is a protocol failure.
    fields
        Header fields; more is a protocol failure.
    body
        Bytes of body that are read; past them the connection is closed.
    kept
        Bytes of body that are kept: of a batch's answer all that may list its 100 messages, and why each has failed.
    """

    head: int = 32 * 1024
    fields: int = 128
    body: int = 64 * 1024
    kept: int = 16 * 1024


class BadAnswer(Exception):
    """What came is not an HTTP answer, or is over a limit, or its body breaks the rules after a head that does not."""


class Answer:
    """Reads answers one after the other from one connection; `reset` before each request.

    It tolerates what clients in the field tolerate, since a 2xx that counts as a failure is delivered again: lines
    without a carriage return in heads (RFC 9112, section 2.2), folded ones (5.2), control characters in values and
    spaces behind the size of a chunk. Not lines of chunks without a carriage return, which the RFC takes in heads alone
    (section 7.1), and readers that differ about them see other bodies.
    After an interim answer that says close the final one is read.

    The parser calls back once per answer and part, not once per header field: no field matters
    for an ordinary 2xx, so heads are kept as they came and searched only when one does.

    Attributes
    ----------
    status
        Of the final answer; 0 until its head is whole and within the limits. From then on it counts, whatever
        becomes of the body.
    complete
        The final answer is whole, or so large that the rest does not matter.
    keep_alive
        The connection may carry another request. Only meaningful when complete.
    body
        The first bytes of the body.
    """

    __slots__ = ("_head", "_limits", "_parser", "_received", "_stored", "body", "complete", "keep_alive", "status")

    def __init__(self, limits: AnswerLimits) -> None:
        self._limits = limits
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_keep_alive=True,  # an interim answer may say close
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.reset()

    def reset(self) -> None:
        """Forget the last answer."""
        self._head = b""
        self.body: bytes | bytearray = b""
        self._received = self._stored = self.status = 0
        self.complete = self.keep_alive = False

    def feed(self, data: bytes) -> bool:
        """Read on and return whether the answer is complete.

        Raises
        ------
        BadAnswer
            Before the answer was complete. Garbage after it only ends ``keep_alive``.
        """
        self._received += len(data)
        if not self.status:
            self._head = self._head + data if self._head else data
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as error:
            raise BadAnswer("switch to another protocol") from error
        except HttpParserError as error:
            self._broken(error)
        if self._received > self._limits.head:
            self._check_size()
        return self.complete

    def end(self) -> None:
        """Take the end of the peer's bytes; where it gave no length, that is where its body is whole."""
        if self.status and self._field(b"content-length") is None and self._field(b"transfer-encoding") is None:
            self._cut()

    @property
    def retry_after(self) -> str | None:
        """The Retry-After header as sent; None for a success, where it means nothing."""
        return None if self.status < _FIRST_FAILURE else self._text(b"retry-after")

    @property
    def date(self) -> str | None:
        """The Date header as sent."""
        return self._text(b"date")

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The header fields of the final answer, as sent; none while its head is not whole."""
        if not self.status:
            return []
        lines = self._final_head().decode("latin-1").split("\n")[1:]
        pairs = (line.strip().partition(":") for line in lines if line.strip())
        return [(name.strip(), value.strip()) for name, _, value in pairs]

    @property
    def stored(self) -> int:
        """How many bytes of the body have come."""
        return self._stored

    def on_message_begin(self) -> None:
        """Stop the parser at anything that follows the final answer."""
        if self.complete:
            raise BadAnswer("data after its end")

    def on_headers_complete(self) -> None:
        """Learn the status, unless it is an interim one."""
        status = self._parser.get_status_code()
        if status >= _FIRST_FINAL:
            if len(self._head) > _SMALL:
                self._cut_head()
            self.status = status
            self.keep_alive = self._parser.should_keep_alive()
            if b"HTTP/1.0 " in self._head and self._is_badly_framed():
                self.keep_alive = False
        elif status < _CONTINUE:
            raise BadAnswer(f"status {status:03d}")

    def on_body(self, data: bytes) -> None:
        """Keep the first bytes."""
        limits = self._limits
        if self._stored < limits.kept:
            if self._stored:
                self.body = bytearray(self.body) if isinstance(self.body, bytes) else self.body
                self.body += data[: limits.kept - len(self.body)]
            else:
                self.body = data[: limits.kept]
        self._stored += len(data)
        if self._stored > limits.body:
            self._cut()

    def on_message_complete(self) -> None:
        """Finish, unless it was an interim answer."""
        if self.status:
            self.complete = True

    def _is_badly_framed(self) -> bool:
        """Whether a server of HTTP/1.0 sends chunks: nobody else may read them as it does (RFC 9112, section 6.1)."""
        return self._parser.get_http_version() == "1.0" and self._field(b"transfer-encoding") is not None

    def _text(self, name: bytes) -> str | None:
        value = self._field(name)
        return None if value is None else value[:_LONGEST_FIELD].decode("latin-1")

    def _field(self, name: bytes) -> bytes | None:
        """Return the last value of a field in the head of the final answer."""
        found = None
        for line in self._final_head().split(b"\n"):
            if line[: len(name)].lower() == name and line[len(name) : len(name) + 1] == b":":
                found = line[len(name) + 1 :].strip(b" \t\r")
        return found

    def _final_head(self) -> bytes:
        head, rest = _split(self._head)
        while _INTERIM.match(head):
            head, rest = _split(rest)
        return _unfolded(head.replace(b"\0", b" "))  # RFC 9110, section 5.5

    def _cut(self) -> None:
        self.complete = True
        self.keep_alive = False

    def _broken(self, error: HttpParserError) -> None:
        if not self.complete:
            cause = error.__context__ if isinstance(error, HttpParserCallbackError) else error
            raise BadAnswer(str(cause)) from error
        self.keep_alive = False

    def _cut_head(self) -> None:
        """Let go of what came with the head, and check the head's size."""
        self._head = head = self._final_head()
        if len(head) > self._limits.head or head.count(b"\n") > self._limits.fields:
            raise BadAnswer(f"more than {self._limits.head} bytes or {self._limits.fields} fields of headers")

    def _check_size(self) -> None:
        limits = self._limits
        if not self.status:
            raise BadAnswer(f"more than {limits.head} bytes of headers")
        if self._received > 2 * (limits.head + limits.body):
            if not self.complete:
                raise BadAnswer(f"more than {limits.head} bytes of chunk extensions or trailers")
            self.keep_alive = False


def _unfolded(head: bytes) -> bytes:
    """Return a head with the lines that are folded as one each."""
    if b"\n " not in head and b"\n\t" not in head:
        return head
    lines: list[list[bytes]] = []
    for line in head.split(b"\n"):
        if lines and line[:1] in (b" ", b"\t"):
            lines[-1].append(line.strip(b" \t\r"))
        else:
            lines.append([line.rstrip(b" \t\r")])
    return b"\n".join(b" ".join(pieces) for pieces in lines)


def _split(data: bytes) -> tuple[bytes, bytes]:
    """Return the first head and what follows it."""
    data = data.lstrip(b"\r\n")
    end = _SPACE_FIRST.match(data) or _HEAD_END.search(data)
    return (data[: end.end()], data[end.end() :]) if end else (data, b"")
