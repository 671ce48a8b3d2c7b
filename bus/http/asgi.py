"""Reading one request and answering it, for what is plain ASGI."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from bus.errors import BusError, MessageTooLarge
from bus.http.problem import CONTENT_TYPE, Problem, failure, fields_of, problem, problem_of

_log = logging.getLogger(__name__)
Event = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Field = tuple[bytes, bytes]

JSON: Final = "application/json"
_NDJSON: Final = "application/x-ndjson"
encode: Final = msgspec.json.Encoder().encode


async def answer(send: Send, status: int, content: bytes, content_type: str, *fields: Field) -> None:
    """Send a whole answer, with these header fields besides."""
    head = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(content)), *fields]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": content})


async def guarded(app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Have an application answer; what goes wrong inside is logged, and answered unless an answer has begun."""
    try:
        await app(scope, receive, send)
    except Exception as error:  # noqa: BLE001 - whatever it is, the peer gets an answer
        try:
            await Refusal(failure())(scope, receive, send)
        except Exception:  # noqa: BLE001 - the server's own, since an answer has begun; it logs ours and closes
            raise error from None
        _log.error("%s %s failed", scope["method"], scope["path"][:200], exc_info=error)


class Refusal:
    """An application that answers with a problem document and the header fields that go with it."""

    def __init__(self, found: Problem, *fields: Field) -> None:
        self._problem = found
        self._fields = fields

    async def __call__(self, _scope: object, _receive: object, send: Callable[[Any], Awaitable[None]]) -> None:
        """Answer with the problem document."""
        found = self._problem
        await answer(send, found.status, encode(found), CONTENT_TYPE, *fields_of(found), *self._fields)


class RequestRefused(Exception):
    """A request that is refused."""

    def __init__(self, found: Problem, *fields: Field) -> None:
        super().__init__(found.detail)
        self.refusal = Refusal(found, *fields)


@asynccontextmanager
async def refusing(scope: Scope, receive: Receive, send: Send) -> AsyncIterator[None]:
    """Answer what is refused inside; nothing may have been sent by then."""
    try:
        yield
    except RequestRefused as refused:
        await refused.refusal(scope, receive, send)
    except BusError as error:
        await Refusal(problem_of(error))(scope, receive, send)


def require_post(scope: Scope) -> None:
    """Raise ``RequestRefused`` (405) for any other method."""
    if scope["method"] != "POST":
        raise RequestRefused(problem(405, f"{scope['path']} takes POST"), (b"allow", b"POST"))


def require_lines(headers: Mapping[bytes, bytes], what: str) -> None:
    """Raise ``RequestRefused`` (415) unless the body is NDJSON; ``what`` names what its lines are."""
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    if content_type.split(";")[0].strip().lower() != _NDJSON:
        raise RequestRefused(problem(415, f"{what} is {_NDJSON}, a line each; this is {content_type or 'not named'!r}"))


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], limit: int) -> bytes:
    """Return the whole body.

    Raises
    ------
    MessageTooLarge
        It is over the limit in bytes.
    Refused
        It is encoded, or was cut off.
    """
    declared = headers.get(b"content-length")
    if declared is not None and int(declared) > limit:
        raise MessageTooLarge(f"the body has {int(declared)} bytes; the limit is {limit}", field="body")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise RequestRefused(problem(415, "send the body without Content-Encoding: it is delivered byte for byte"))
    return await _whole(receive, limit)


async def _whole(receive: Receive, limit: int) -> bytes:
    event = await receive()
    if not event.get("more_body"):
        body = _chunk(event)
        _check(len(body), limit)
        return body
    gathered = bytearray()
    while True:
        gathered += _chunk(event)
        _check(len(gathered), limit)
        if not event.get("more_body"):
            return bytes(gathered)
        event = await receive()


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise MessageTooLarge(f"the body is over the limit of {limit} bytes", field="body")


def _chunk(event: Event) -> bytes:
    if event["type"] == "http.disconnect":
        raise RequestRefused(problem(400, "the connection was closed before the body was whole"))
    body: bytes = event.get("body", b"")
    return body
