"""The HTTP client of a receiver: one batch, one reply."""

from __future__ import annotations

import logging
import platform
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from bus.domain.headers import FALLBACK
from bus.domain.queue_report import HEADER, SOURCE, QueueReport
from bus.error_texts import error_text

if TYPE_CHECKING:
    import ssl

    import httpx

    from bus.client.options import WallAndMonotonic
    from bus.client.spooling.line import Head

THREAD: Final = "bus-send"
"""The daemon's name."""
EVENTS_THREAD: Final = "bus-events"
"""That of the thread that ships trace events."""
STRAIGHT_THREAD: Final = "bus-straight"
"""That of the thread that posts what the disk refused."""
CONNECT_SECONDS: Final = 5.0
_LONGEST_HOST: Final = 64
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
_MOST_REPLY: Final = 8 * 2**20
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_OK: Final = 200
_FIRST_REDIRECT: Final = 300
_KEY_REFUSED: Final = (401, 403)
_TOO_LARGE: Final = 413
_SPLITTING: Final = (400, _TOO_LARGE, 422, 500)


class Reason(msgspec.Struct, frozen=True):
    """The problem document of a refused line.

    ``retry_after`` is in how many seconds to try again, 0 when not said; ``leader`` is who is to be asked instead.
    """

    status: int = 0
    title: str = ""
    detail: str = ""
    hint: str = ""
    field: str = ""
    retry_after: int = 0
    leader: str = ""

    def __str__(self) -> str:
        return self.detail or self.title or f"status {self.status}"


class Result(msgspec.Struct, frozen=True):
    """The receiver's answer to one line; a duplicate may have the id of the message that it repeats."""

    status: str
    id: str | None = None
    error: Reason | None = None

    @property
    def is_taken(self) -> bool:
        """Whether the receiver has the message, now or since an earlier request."""
        return self.status in ("accepted", "duplicate")


class _Results(msgspec.Struct, frozen=True):
    results: list[Result]


class Reply(NamedTuple):
    """An answer to a batch: a result for each line, or the failure of the request as a whole.

    Attributes
    ----------
    results
        In the order of the lines; None when the request failed.
    failure
        Why it failed, in words.
    status
        The HTTP status, 0 without an answer.
    retry_after
        Seconds that the receiver asked to wait.
    splits
        Whether the cause may be a single line, so that smaller requests help.
    date
        The receiver's time in milliseconds since the epoch, 0 when it did not say.
    """

    results: list[Result] | None
    failure: str = ""
    status: int = 0
    retry_after: float | None = None
    splits: bool = False
    date: int = 0

    @property
    def is_too_large(self) -> bool:
        """Whether the request was refused for its size."""
        return self.status == _TOO_LARGE


class EventsReply(NamedTuple):
    """The reply to a file of trace events: its status (0 without an answer), and why the file was not accepted."""

    status: int
    failure: str = ""
    retry_after: float | None = None

    @property
    def is_taken(self) -> bool:
        """Whether the receiver has it."""
        return _OK <= self.status < _FIRST_REDIRECT


class Answer(NamedTuple):
    """The reply to a request about a lease; ``status`` is 0 without an answer, and ``reason`` says why then."""

    status: int
    reason: Reason
    body: bytes = b""

    @property
    def is_done(self) -> bool:
        """Whether the request succeeded (a 2xx status)."""
        return _OK <= self.status < _FIRST_REDIRECT


class ReceiverClient:
    """Posts batches over one kept connection; for one thread. Importing httpx is left to the making of one.

    Parameters
    ----------
    timeout
        Seconds for each read and write, and for the reply as a whole.
    transport
        For tests.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        clock: WallAndMonotonic,
        timeout: float,
        transport: httpx.BaseTransport | None,
    ) -> None:
        logging.getLogger("httpx").addFilter(_is_ours_to_tell)
        import httpx  # noqa: PLC0415 - loaded by the daemon alone, at its first start

        headers = {
            "content-type": "application/x-ndjson",
            "accept-encoding": "identity",
            "user-agent": _user_agent(),
        }
        if api_key:
            headers["authorization"] = f"Bearer {api_key}"
        self._httpx = httpx
        self._clock = clock
        self._timeout = timeout
        self._url = url.rstrip("/")
        self._address = self._url + "/v1/messages"
        self._events_address = self._url + "/v1/events"
        self._http = httpx.Client(
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
            transport=transport,
            # Servers close idle connections after 5 s as a rule; be first.
            limits=httpx.Limits(max_connections=1, keepalive_expiry=3.0),
            # A proxy of the environment is for other machines.
            trust_env=urlsplit(url).hostname not in _LOOPBACK,
            verify=_verifying_context() if urlsplit(url).scheme == "https" else _unused_context(),
        )

    def post(
        self,
        lines: Sequence[bytes],
        heads: Sequence[Head],
        *,
        is_straight: bool = False,
        queue: QueueReport | None = None,
    ) -> Reply:
        """Send lines and return the receiver's reply; raises nothing that a network or a peer can cause.

        ``heads`` are the heads of the lines: a reply that accepts a message under another id does not come from a
        receiver, unless the message may repeat another.
        ``is_straight`` marks the lines as stored on no disk of this machine, ``queue`` reports the backlog here.
        """
        httpx = self._httpx
        headers = {FALLBACK.encode(): b"1"} if is_straight else {}
        if queue is not None:
            headers[HEADER.encode()] = queue.text.encode()
            if queue.source:
                headers[SOURCE.encode()] = queue.source.encode()
        try:
            with self._http.stream("POST", self._address, content=b"\n".join(lines), headers=headers) as response:
                return self._read(response, heads)
        except (httpx.WriteTimeout, httpx.ReadTimeout) as error:
            return Reply(None, str(error_text(error)), splits=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return Reply(None, str(error_text(error)))

    def ship(self, lines: bytes) -> EventsReply:
        """Ship blocks of trace events; raises nothing that a network or a peer can cause."""
        httpx = self._httpx
        try:
            with self._http.stream("POST", self._events_address, content=lines) as response:
                body = self._body(response) or b""
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return EventsReply(0, str(error_text(error)))
        wait = _retry_after(response.headers.get("retry-after"), self._clock.now())
        return EventsReply(response.status_code, _refusal(response, body), wait)

    def ask(self, method: str, path: str, content: bytes = b"") -> Answer:
        """Ask for something, with JSON; raises nothing that a network or a peer can cause."""
        httpx = self._httpx
        headers = {"content-type": "application/json"}
        try:
            with self._http.stream(method, self._url + path, content=content, headers=headers) as response:
                body = self._body(response) or b""
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return Answer(0, Reason(detail=str(error_text(error))))
        return Answer(response.status_code, _reason(response, body), body)

    def close(self) -> None:
        """Give up the connection."""
        self._http.close()

    def _read(self, response: httpx.Response, heads: Sequence[Head]) -> Reply:
        body = self._body(response)
        date = _date(response.headers.get("date"))
        if response.status_code != _OK:
            return Reply(
                None,
                _refusal(response, body or b""),
                response.status_code,
                _retry_after(response.headers.get("retry-after"), date or self._clock.now()),
                splits=response.status_code in _SPLITTING,
                date=date,
            )
        if body is None:
            return Reply(None, "the answer is too long, or came too slowly, to be a receiver's", splits=True)
        results = _results(body, heads)
        if results is None:
            return Reply(None, f"{self._address} answered 200, but not as a receiver does", _OK, splits=True)
        return Reply(results, status=_OK, date=date)

    def _body(self, response: httpx.Response) -> bytes | None:
        end = self._clock.monotonic() + self._timeout
        gathered = bytearray()
        for chunk in response.iter_bytes():
            gathered += chunk
            if len(gathered) > _MOST_REPLY or self._clock.monotonic() > end:
                return None
        return bytes(gathered)


@cache
def _user_agent() -> str:
    """Return the SDK's version and environment: ``pier-python/0.1.0 (host web-1; python 3.12.1)``."""
    try:
        own = version("pier-bus")
    except PackageNotFoundError:
        own = "unknown"
    host = _NO_NAME.sub("", socket.gethostname())[:_LONGEST_HOST]
    return f"pier-python/{own} (host {host}; python {platform.python_version()})"


def _verifying_context() -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities that httpx does."""
    import httpx  # noqa: PLC0415 - not for a process that sends nothing

    from bus.network.certificates import with_expiry_date  # noqa: PLC0415

    return with_expiry_date(httpx.create_ssl_context())


@cache
def _unused_context() -> ssl.SSLContext:
    """Return the TLS context that httpx asks for even where nothing is encrypted.

    Made only once: reading the authorities' certificates takes 30 ms, and a fork while another thread makes or frees a
    context leaves OpenSSL's lock held in the child.
    """
    import ssl  # noqa: PLC0415 - not for a process that sends nothing

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _is_ours_to_tell(record: logging.LogRecord) -> bool:
    """Filter out the line that httpx logs for each of our requests; the daemon logs the relevant ones."""
    return record.threadName not in (THREAD, EVENTS_THREAD, STRAIGHT_THREAD)


def _results(body: bytes, heads: Sequence[Head]) -> list[Result] | None:
    try:
        results = msgspec.json.decode(body, type=_Results).results
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if len(results) != len(heads):
        return None
    return results if all(map(_is_of, results, heads)) else None


def _is_of(result: Result, head: Head) -> bool:
    """Whether a receiver may answer this to a line."""
    if result.status == "duplicate" and head.may_repeat_another:
        return bool(result.id)
    return result.status == "rejected" or (result.is_taken and result.id == head.id)


def _reason(response: httpx.Response, body: bytes) -> Reason:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(body, type=Reason)
    return Reason(response.status_code, response.reason_phrase)


def _refusal(response: httpx.Response, body: bytes) -> str:
    said = str(_reason(response, body))
    hint = ""
    if response.status_code in _KEY_REFUSED:
        hint = "; check the API key"
    elif response.has_redirect_location:
        hint = f"; it redirects to {response.headers['location']}: give that as the url"
    return f"status {response.status_code}: {said}{hint}"


def _date(value: str | None) -> int:
    try:
        return int(parsedate_to_datetime(value).timestamp() * 1000) if value else 0
    except (ValueError, OverflowError):
        return 0


def _retry_after(value: str | None, now: int) -> float | None:
    """Return the seconds of a Retry-After, which is a number or a date."""
    if not value:
        return None
    if value.strip().isdecimal():
        return float(value)
    date = _date(value)
    return max(0.0, (date - now) / 1000) if date else None
