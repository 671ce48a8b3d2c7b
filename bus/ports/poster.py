"""One POST to a subscriber."""

from __future__ import annotations

import enum
from collections.abc import Coroutine
from typing import Any, NamedTuple, Protocol


class PostFailure(enum.StrEnum):
    """Reason why a POST has no usable answer."""

    DENIED = "denied"  # the egress policy forbids the address
    DNS = "dns"
    REFUSED = "refused"  # no server accepts connections on the port
    CONNECT = "connect"  # any other failure to connect
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"  # the answer is not HTTP, or breaks its rules
    RESET = "reset"  # the peer closed before the answer's head was whole


class Phases(NamedTuple):
    """Milliseconds spent in each phase; None where the phase did not happen (a kept connection has no connect)."""

    dns: float | None
    connect: float | None
    tls: float | None
    send: float | None
    first_byte: float | None
    receive: float | None


class PostResult(NamedTuple):
    """Result of one POST: either ``status`` is set, or ``failure`` and ``error``.

    The status counts once the answer's head is whole, even if its body is cut off, late, or broken; ``response`` is
    then the received part of the body, and ``is_whole`` False. ``indeterminate`` is True when the request may have
    reached the subscriber though no answer came back.
    """

    status: int | None
    failure: PostFailure | None
    error: str
    indeterminate: bool
    duration: float  # milliseconds, whole
    phases: Phases
    retry_after: str | None  # the header as sent
    response: bytes  # the first bytes of the answer's body, capped
    date: str | None = None  # the header as sent, beside a ``retry_after``
    is_whole: bool = True  # ``response`` is the answer's whole body


class Trial(NamedTuple):
    """One POST as it was sent and answered, for display.

    Attributes
    ----------
    headers
        Of the request, all of them and as they went over the wire.
    answer_headers
        Of the answer, as sent; empty without one.
    answer_bytes
        Bytes of the answer's body, as far as it was read; ``result.response`` has the first of them.
    body
        Of the request.
    """

    url: str
    headers: list[tuple[str, str]]
    result: PostResult
    answer_headers: list[tuple[str, str]]
    answer_bytes: int
    body: bytes


class Target(Protocol):
    """A parsed URL with its constant headers, made once per subscription."""

    @property
    def url(self) -> str:
        """The URL as given."""
        ...


class OngoingPost(Protocol):
    """A POST under way."""

    def cancel(self) -> None:
        """Close its connection; the waiter does not get a result."""
        ...


class PostWaiter(Protocol):
    """Receiver of the result of a POST, called on the event loop."""

    def set_result(self, result: PostResult, /) -> None:
        """Receive the result of the POST."""
        ...

    def go_on(self, post: Coroutine[Any, Any, PostResult], /) -> None:
        """Await the POST: the kept connection was closed before any byte of an answer, and needs a new one."""
        ...


class Poster(Protocol):
    """Sends one request at a time over kept connections; never follows redirects, never retries an answered POST."""

    def target(self, url: str, headers: dict[str, str], method: str = "POST") -> Target:
        """Parse a URL and its constant headers once; ``method`` is sent instead of POST.

        Raises
        ------
        EgressDenied
            Another scheme than http or https, user info, a broken host, or a literal address that is denied.
        ValueError
            A header name or value that HTTP does not allow (CR, LF, NUL, a reserved name).
        """
        ...

    async def post(self, target: Target, headers: list[tuple[str, str]], body: bytes, timeout: float) -> PostResult:  # noqa: ASYNC109
        """POST ``body`` and return the outcome; network trouble is a result, never an exception.

        Resolves the host, checks every address against the egress policy, and connects to a checked one.
        ``timeout`` is the whole call's deadline in seconds. A kept connection that the peer closed before
        any byte of an answer is replaced by a new one, once. Cancelling closes the connection.
        """
        ...

    def begin(
        self, target: Target, headers: list[tuple[str, str]], body: bytes, timeout: float, waiter: PostWaiter
    ) -> OngoingPost | None:
        """POST as ``post`` does over a kept connection, and pass the result to the waiter after this has returned.

        None when no connection is kept, and nothing was done: ``post`` opens one.
        """
        ...

    async def trial(self, target: Target, headers: list[tuple[str, str]], body: bytes, timeout: float) -> Trial:  # noqa: ASYNC109
        """POST once as ``post`` does, over a connection of its own, and return all that was sent and answered.

        More of the answer's body is kept than of other POSTs'.
        """
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
