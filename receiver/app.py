"""The hot routes as plain ASGI: FastAPI costs four times an empty endpoint for each request (docs/performance.md)."""

from __future__ import annotations

from collections.abc import Sequence

from bus.domain.headers import FALLBACK
from bus.errors import BusError
from bus.http.asgi import (
    JSON,
    Receive,
    Scope,
    Send,
    answer,
    read_body,
    refusing,
    require_lines,
    require_post,
)
from bus.http.draft import Draft, draft_of_request
from bus.http.messages import BATCH_BYTES, PREFIX, AcceptedMessage, content_of, drafts_of, results_of
from bus.security.keyring import Keyring
from bus.security.origins import refuse_foreign_page
from bus.security.principals import Principal
from bus.telemetry import metrics
from bus.telemetry.source_counters import SourceCounters
from receiver.ingest import Ingest
from receiver.known_producers import AGENT, KnownProducers
from receiver.rejections import Rejections


class IngestApp:
    """``POST /v1/messages/{destination}`` and ``POST /v1/messages`` (``GET /openapi.json``).

    The server's protocol bounds how long a request's body may take to arrive.
    """

    def __init__(self, ingest: Ingest, keyring: Keyring, rejections: Rejections, producers: KnownProducers) -> None:
        self._ingest = ingest
        self._keyring = keyring
        self._rejections = rejections
        self._producers = producers
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
        refuse_foreign_page(principal, named)
        path: str = scope["path"]
        if path in (PREFIX, PREFIX + "/"):
            return await self._batch(named, principal, receive)
        await self._ingest.until_current()  # a destination that is unknown may be new
        destination = path[len(PREFIX) + 1 :]
        body = await read_body(receive, named, self._ingest.limit(destination))
        draft = draft_of_request(destination, headers, body)
        accepted = await self._ingest.accept_one(draft, principal)
        self._producers.note(principal.name, draft.source, named.get(AGENT, b""))
        return 202, content_of(accepted)

    async def _batch(self, headers: dict[bytes, bytes], principal: Principal, receive: Receive) -> tuple[int, bytes]:
        require_lines(headers, "a batch")
        body = await read_body(receive, headers, BATCH_BYTES)
        drafts = drafts_of(body)
        answers = await self._ingest.accept(drafts, principal)
        self._rejections.note(drafts, answers)
        self._producers.note_batch(headers, principal.name, drafts)
        if FALLBACK.encode() in headers:
            self._count_fallback(drafts, answers)
        return 200, results_of(drafts, answers)

    def _count_fallback(
        self, drafts: Sequence[Draft | BusError], answers: Sequence[AcceptedMessage | BusError]
    ) -> None:
        for draft, accepted in zip(drafts, answers, strict=True):
            if isinstance(draft, Draft) and isinstance(accepted, AcceptedMessage) and not accepted.duplicate:
                self._fallback.count(draft.destination, draft.source)
