"""The agent's HTTP application: bodies in chunks, errors, and health."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from bus.agent.admission import Admission
from bus.agent.condition import Condition
from bus.agent.intake import Batch, Intake, Refusals
from bus.client.options import PreparedMessage
from bus.http.asgi import (
    JSON,
    Receive,
    RequestRefused,
    Scope,
    Send,
    answer,
    guarded,
    read_body,
    refusing,
    require_lines,
    require_post,
)
from bus.http.draft import draft_of_request
from bus.http.messages import BATCH_BYTES, PREFIX, AcceptedMessage, content_of
from bus.http.problem import problem

_ALIVE: Final = msgspec.json.encode({"status": "ok", "role": "agent"})
_OWN: Final = ("/healthz", "/readyz", "/metrics")


class AgentApp:
    """``POST /v1/messages/{destination}``, ``POST /v1/messages``, ``/healthz``, ``/readyz`` and ``/metrics``."""

    def __init__(self, intake: Intake, admission: Admission, condition: Condition) -> None:
        self._intake = intake
        self._admission = admission
        self._condition = condition

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await guarded(self._serve, scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with refusing(scope, receive, send):
            path: str = scope["path"]
            headers = dict(scope["headers"])
            is_open = path == "/healthz" or (path in _OWN and self._admission.asks_for_key)
            if not is_open and (refusal := self._admission.refusal(headers)) is not None:
                raise RequestRefused(refusal)
            if path in _OWN:
                _require_get(scope)
                await self._tell(path, send)
            elif path == PREFIX or path.startswith(f"{PREFIX}/"):
                status, content = await self._take(path, scope, headers, receive)
                await answer(send, status, content, JSON)
            else:
                raise RequestRefused(
                    problem(404, f"an agent takes messages alone; {path[:200]} is the receiver's to answer")
                )

    async def _tell(self, path: str, send: Send) -> None:
        if path == "/healthz":
            await answer(send, 200, _ALIVE, JSON)
        elif path == "/readyz":
            await answer(send, 200, msgspec.json.encode(await self._condition.health()), JSON)
        else:
            await answer(send, 200, await self._condition.metrics(), CONTENT_TYPE_LATEST)

    async def _take(self, path: str, scope: Scope, headers: dict[bytes, bytes], receive: Receive) -> tuple[int, bytes]:
        require_post(scope)
        if path in (PREFIX, PREFIX + "/"):
            require_lines(headers, "a batch")
            batch = Batch(self._intake, await read_body(receive, headers, BATCH_BYTES))
            return 200, batch.content(await self._stored(batch.prepared) if batch.prepared else ())
        body = await read_body(receive, headers, self._intake.max_bytes)
        prepared = self._intake.prepare(draft_of_request(path[len(PREFIX) + 1 :], scope["headers"], body))
        for refusal in await self._stored([prepared]):
            if refusal is not None:
                raise refusal
        return 202, content_of(AcceptedMessage(prepared.id, duplicate=False))

    async def _stored(self, prepared: Sequence[PreparedMessage]) -> Refusals:
        stored: asyncio.Future[Refusals] = asyncio.get_running_loop().create_future()
        self._intake.store(prepared, stored)
        return await stored


def _require_get(scope: Scope) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        raise RequestRefused(problem(405, f"{scope['path']} takes GET"), (b"allow", b"GET, HEAD"))
