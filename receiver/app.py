"""The hot routes as plain ASGI: FastAPI costs four times an empty endpoint for each request (docs/performance.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bus.domain.headers import FALLBACK
from bus.domain.queue_report import HEADER
from bus.errors import BusError, InvalidMessage
from bus.http.asgi import (
    JSON,
    Receive,
    Refused,
    Scope,
    Send,
    answer,
    encode,
    read_body,
    refusing,
    require_lines,
    require_post,
)
from bus.http.problem import problem, problem_of
from bus.security.keyring import Keyring
from bus.security.principals import Principal
from bus.telemetry import metrics
from receiver.draft import Draft, draft_of_line, draft_of_request
from receiver.ingest import Accepted, Ingest
from receiver.producer_queues import ProducerQueues
from receiver.rejections import Rejections
from receiver.source_counters import SourceCounters

_QUEUE: Final = HEADER.encode()
PREFIX: Final = "/v1/messages"
BATCH_LINES: Final = 1000
BATCH_BYTES: Final = 16 * 2**20


class IngestApp:
    """``POST /v1/messages/{destination}`` and ``POST /v1/messages`` (``GET /openapi.json``).

    The server's protocol bounds how long a request's body may take to arrive.
    """

    def __init__(self, ingest: Ingest, keyring: Keyring, rejections: Rejections, queues: ProducerQueues) -> None:
        self._ingest = ingest
        self._keyring = keyring
        self._rejections = rejections
        self._queues = queues
        self._fallback = SourceCounters(metrics.FALLBACK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with refusing(scope, receive, send):
            status, content = await self._answer(scope, receive)
            await answer(send, status, content, JSON)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes]:
        require_post(scope)
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        named = dict(headers)
        principal = self._keyring.authenticate(named.get(b"authorization"), named.get(b"host"))
        path: str = scope["path"]
        if path in (PREFIX, PREFIX + "/"):
            return await self._batch(named, principal, receive)
        destination = path[len(PREFIX) + 1 :]
        body = await read_body(receive, named, self._ingest.limit(destination))
        accepted = await self._ingest.accept_one(draft_of_request(destination, headers, body), principal)
        return 202, content_of(accepted)

    async def _batch(self, headers: dict[bytes, bytes], principal: Principal, receive: Receive) -> tuple[int, bytes]:
        require_lines(headers, "a batch")
        body = await read_body(receive, headers, BATCH_BYTES)
        lines = [line for line in body.split(b"\n") if line.strip()]
        if len(lines) > BATCH_LINES:
            raise Refused(problem(413, f"a batch has at most {BATCH_LINES} lines; this has {len(lines)}"))
        drafts = [_read(line) for line in lines]
        answers = await self._ingest.accept(drafts, principal)
        self._rejections.note(drafts, answers)
        if (told := headers.get(_QUEUE)) is not None:
            self._queues.note(told, drafts)
        if FALLBACK.encode() in headers:
            self._count_fallback(drafts, answers)
        results = [_result(draft, answer) for draft, answer in zip(drafts, answers, strict=True)]
        return 200, encode({"results": results})

    def _count_fallback(self, drafts: Sequence[Draft | BusError], answers: Sequence[Accepted | BusError]) -> None:
        for draft, accepted in zip(drafts, answers, strict=True):
            if isinstance(draft, Draft) and isinstance(accepted, Accepted) and not accepted.duplicate:
                self._fallback.count(draft.destination, draft.source)


def _read(line: bytes) -> Draft | BusError:
    try:
        return draft_of_line(line)
    except InvalidMessage as error:
        return error


def content_of(answer: Accepted) -> bytes:
    """Return the body of the answer to a single message."""
    return b'{"id": "%s", "duplicate": %s}' % (answer.id.encode(), b"true" if answer.duplicate else b"false")


def _result(draft: Draft | BusError, answer: Accepted | BusError) -> dict[str, Any]:
    if isinstance(answer, Accepted):
        return {"id": answer.id, "status": "duplicate" if answer.duplicate else "accepted"}
    given = draft.id if isinstance(draft, Draft) else ""
    return {"id": given or None, "status": "rejected", "error": problem_of(answer)}
