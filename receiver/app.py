"""The hot routes as plain ASGI: FastAPI costs four times an empty endpoint for each request (performance.md)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

import msgspec

from bus.domain.problem import CONTENT_TYPE, Problem, headers_of, problem, problem_of
from bus.errors import BusError, InvalidMessage, MessageTooLarge
from bus.security.keyring import Keyring
from bus.security.principals import Principal
from receiver.draft import Draft, draft_of_line, draft_of_request
from receiver.ingest import Accepted, Ingest

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PREFIX: Final = "/v1/messages"
BATCH_LINES: Final = 1000
BATCH_BYTES: Final = 16 * 2**20
_NDJSON: Final = "application/x-ndjson"
_encode: Final = msgspec.json.Encoder().encode


class _Refused(Exception):
    def __init__(self, answer: Problem) -> None:
        super().__init__(answer.detail)
        self.answer = answer


class IngestApp:
    """``POST /v1/messages/{destination}`` and ``POST /v1/messages`` (contract.md, "HTTP: receiver").

    The server's protocol bounds how long a request's body may take to arrive.
    """

    def __init__(self, ingest: Ingest, keyring: Keyring) -> None:
        self._ingest = ingest
        self._keyring = keyring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            status, content = await self._answer(scope, receive)
        except _Refused as refused:
            await _send_problem(send, refused.answer)
        except BusError as error:
            await _send_problem(send, problem_of(error))
        else:
            await _send(send, status, content, b"application/json")

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        if scope["method"] != "POST":
            raise _Refused(problem(405, f"{scope['path']} takes POST"))
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        named = dict(headers)
        principal = self._keyring.authenticate(named.get(b"authorization"), named.get(b"host"))
        path: str = scope["path"]
        if path in (PREFIX, PREFIX + "/"):
            return await self._batch(named, principal, receive)
        destination = path[len(PREFIX) + 1 :]
        body = await self._body(receive, named, self._ingest.limit(destination))
        answer = await self._ingest.accept_one(draft_of_request(destination, headers, body), principal)
        return 202, _accepted(answer)

    async def _batch(self, headers: dict[bytes, bytes], principal: Principal, receive: Receive) -> tuple[int, bytes]:
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        if content_type.split(";")[0].strip().lower() != _NDJSON:
            raise _Refused(problem(415, f"a batch is {_NDJSON}, a line each; this is {content_type or 'not named'!r}"))
        body = await self._body(receive, headers, BATCH_BYTES)
        lines = [line for line in body.split(b"\n") if line.strip()]
        if len(lines) > BATCH_LINES:
            raise _Refused(problem(413, f"a batch has at most {BATCH_LINES} lines; this has {len(lines)}"))
        drafts = [_read(line) for line in lines]
        answers = await self._ingest.accept(drafts, principal)
        results = [_result(draft, answer) for draft, answer in zip(drafts, answers, strict=True)]
        return 200, _encode({"results": results})

    async def _body(self, receive: Receive, headers: dict[bytes, bytes], limit: int) -> bytes:
        declared = headers.get(b"content-length")
        if declared is not None and int(declared) > limit:
            raise MessageTooLarge(f"the body has {int(declared)} bytes; the limit is {limit}", field="body")
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise _Refused(problem(415, "send the body without Content-Encoding: it is delivered byte for byte"))
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


def _chunk(event: MutableMapping[str, Any]) -> bytes:
    if event["type"] == "http.disconnect":
        raise _Refused(problem(400, "the connection was closed before the body was whole"))
    body: bytes = event.get("body", b"")
    return body


def _read(line: bytes) -> Draft | BusError:
    try:
        return draft_of_line(line)
    except InvalidMessage as error:
        return error


def _accepted(answer: Accepted) -> bytes:
    return b'{"id": "%s", "duplicate": %s}' % (answer.id.encode(), b"true" if answer.duplicate else b"false")


def _result(draft: Draft | BusError, answer: Accepted | BusError) -> dict[str, Any]:
    if isinstance(answer, Accepted):
        return {"id": answer.id, "status": "duplicate" if answer.duplicate else "accepted"}
    given = draft.id if isinstance(draft, Draft) else ""
    return {"id": given or None, "status": "rejected", "error": problem_of(answer)}


async def _send_problem(send: Send, answer: Problem) -> None:
    headers = [(name.encode(), value.encode()) for name, value in headers_of(answer.status).items()]
    if answer.status == 405:  # noqa: PLR2004 - RFC 9110 section 15.5.6 wants it
        headers.append((b"allow", b"POST"))
    await _send(send, answer.status, _encode(answer), CONTENT_TYPE.encode(), headers)


async def _send(
    send: Send, status: int, content: bytes, content_type: bytes, more: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    headers = [(b"content-type", content_type), (b"content-length", str(len(content)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
