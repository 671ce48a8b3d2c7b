"""Reading one request and answering it, for the routes that are plain ASGI."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec

from bus.domain.problem import CONTENT_TYPE, Problem, headers_of, problem, problem_of
from bus.errors import BusError, MessageTooLarge

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_NDJSON: Final = "application/x-ndjson"
encode: Final = msgspec.json.Encoder().encode


class Refused(Exception):
    """A request that is answered with a problem document."""

    def __init__(self, answer: Problem) -> None:
        super().__init__(answer.detail)
        self.answer = answer


@asynccontextmanager
async def refusing(send: Send) -> AsyncIterator[None]:
    """Answer what is refused inside; nothing may have been sent by then."""
    try:
        yield
    except Refused as refused:
        await _send_problem(send, refused.answer)
    except BusError as error:
        await _send_problem(send, problem_of(error))


def require_post(scope: Scope) -> None:
    """Raise ``Refused`` (405) for any other method."""
    if scope["method"] != "POST":
        raise Refused(problem(405, f"{scope['path']} takes POST"))


def require_lines(headers: Mapping[bytes, bytes], what: str) -> None:
    """Raise ``Refused`` (415) unless the body is a line each of what is sent."""
    content_type = headers.get(b"content-type", b"").decode("latin-1")
    if content_type.split(";")[0].strip().lower() != _NDJSON:
        raise Refused(problem(415, f"{what} is {_NDJSON}, a line each; this is {content_type or 'not named'!r}"))


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
        raise Refused(problem(415, "send the body without Content-Encoding: it is delivered byte for byte"))
    return await _whole(receive, limit)


async def send_json(send: Send, status: int, content: bytes) -> None:
    """Answer with JSON."""
    await _send(send, status, content, b"application/json")


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


def _chunk(event: MutableMapping[str, Any]) -> bytes:
    if event["type"] == "http.disconnect":
        raise Refused(problem(400, "the connection was closed before the body was whole"))
    body: bytes = event.get("body", b"")
    return body


async def _send_problem(send: Send, answer: Problem) -> None:
    headers = [(name.encode(), value.encode()) for name, value in headers_of(answer.status, answer.retry_after).items()]
    if answer.status == 405:  # noqa: PLR2004 - RFC 9110 section 15.5.6 wants it
        headers.append((b"allow", b"POST"))
    await _send(send, answer.status, encode(answer), CONTENT_TYPE.encode(), headers)


async def _send(
    send: Send, status: int, content: bytes, content_type: bytes, more: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    headers = [(b"content-type", content_type), (b"content-length", str(len(content)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
