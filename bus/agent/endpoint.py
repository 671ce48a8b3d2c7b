"""Messages without an application: those of a known length, one or many, which only the disk has to be awaited for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from bus.agent.admission import Admission
from bus.agent.intake import Batch, Intake, Refusals
from bus.http.asgi import Field, RequestRefused, require_lines
from bus.http.draft import draft_of_request
from bus.http.endpoint import PendingRequest
from bus.http.messages import BATCH_BYTES, PREFIX, AcceptedMessage, content_of

_BATCH: Final = PREFIX.encode()
_SINGLE: Final = re.compile(_BATCH + rb"/([A-Za-z0-9._-]+)")
_READ_ELSEWHERE: Final = frozenset({b"content-encoding", b"transfer-encoding"})


class AgentEndpoint:
    """Takes messages as the `Endpoint` of a server; `AgentApp` answers all else, and what is refused by its head."""

    def __init__(self, intake: Intake, admission: Admission) -> None:
        self._intake = intake
        self._admission = admission

    def begin(self, method: bytes, target: bytes, headers: Sequence[Field]) -> _Single | _Batch | None:
        """Return who takes this request, None when the application has to answer."""
        if method != b"POST":
            return None
        named = dict(headers)
        if self._admission.refusal(named) is not None or not named.keys().isdisjoint(_READ_ELSEWHERE):
            return None
        length = int(named.get(b"content-length", b"0"))
        if target == _BATCH and length <= BATCH_BYTES:
            with suppress(RequestRefused):
                require_lines(named, "a batch")
                return _Batch(self._intake)
        elif (found := _SINGLE.fullmatch(target)) is not None and length <= self._intake.max_bytes:
            return _Single(self._intake, found[1].decode(), headers)
        return None


class _Single:
    """One message on its way in."""

    __slots__ = ("_destination", "_headers", "_id", "_intake", "_request")
    _request: PendingRequest
    _id: str

    def __init__(self, intake: Intake, destination: str, headers: Sequence[Field]) -> None:
        self._intake = intake
        self._destination = destination
        self._headers = headers

    def take(self, body: bytes, request: PendingRequest) -> None:
        self._request = request
        prepared = self._intake.prepare(draft_of_request(self._destination, self._headers, body))
        self._id = prepared.id
        self._intake.store((prepared,), self)

    def done(self) -> bool:
        return False

    def set_result(self, refusals: Refusals, /) -> None:
        if refusals and (refusal := refusals[0]) is not None:
            self._request.refuse(refusal)
        else:
            self._request.answer(202, content_of(AcceptedMessage(self._id, duplicate=False)))

    def set_exception(self, error: Exception, /) -> None:
        self._request.refuse(error)


class _Batch:
    """The lines of one request on their way in."""

    __slots__ = ("_batch", "_intake", "_request")
    _request: PendingRequest
    _batch: Batch

    def __init__(self, intake: Intake) -> None:
        self._intake = intake

    def take(self, body: bytes, request: PendingRequest) -> None:
        self._request = request
        self._batch = Batch(self._intake, body)
        if self._batch.prepared:
            self._intake.store(self._batch.prepared, self)
        else:
            asyncio.get_running_loop().call_soon(self.set_result, ())

    def done(self) -> bool:
        return False

    def set_result(self, refusals: Refusals, /) -> None:
        self._request.answer(200, self._batch.content(refusals))

    def set_exception(self, error: Exception, /) -> None:
        self._request.refuse(error)
