"""The single message without an application: what can be accepted or refused with nothing to await."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bus.errors import BusError
from bus.http.asgi import Field
from bus.http.draft import IDENTIFYING, draft_of_request
from bus.http.endpoint import PendingRequest
from bus.http.messages import PREFIX, AcceptedMessage, content_of
from bus.security.keyring import Keyring
from bus.security.origins import refuse_foreign_page
from bus.security.principals import Principal
from receiver.ingest import Ingest
from receiver.known_producers import AGENT, KnownProducers

_TARGET: Final = re.compile(PREFIX.encode() + rb"/([A-Za-z0-9._-]+)")
_AWAITED: Final = IDENTIFYING | {b"content-encoding", b"transfer-encoding"}


class MessageEndpoint:
    """Takes a ``POST /v1/messages/{destination}`` that cannot be a repetition, as the `Endpoint` of a server.

    ``IngestApp`` answers all others, and what is refused by its head.
    """

    def __init__(self, ingest: Ingest, keyring: Keyring, producers: KnownProducers) -> None:
        self._ingest = ingest
        self._keyring = keyring
        self._producers = producers

    def begin(self, method: bytes, target: bytes, headers: Sequence[Field]) -> _Single | None:
        """Return the call that takes this message, None when the application has to answer."""
        found = _TARGET.fullmatch(target)
        if found is None or method != b"POST":
            return None
        named = dict(headers)
        if not named.keys().isdisjoint(_AWAITED):
            return None
        destination = found[1].decode()
        try:
            principal = self._keyring.authenticate(named.get(b"authorization"), named.get(b"host"))
            refuse_foreign_page(principal, named)
            limit = self._ingest.limit(destination)
        except BusError:
            return None
        if not self._ingest.awaits_disk_alone(destination):
            return None
        if int(named.get(b"content-length", b"0")) > limit:
            return None
        return _Single(self._ingest, destination, headers, principal, self._producers, named.get(AGENT, b""))


class _Single:
    """One message on its way in; it waits for the disk on behalf of the request."""

    __slots__ = ("_agent", "_destination", "_headers", "_ingest", "_principal", "_producers", "_request")
    _request: PendingRequest

    def __init__(
        self,
        ingest: Ingest,
        destination: str,
        headers: Sequence[Field],
        principal: Principal,
        producers: KnownProducers,
        agent: bytes,
    ) -> None:
        self._ingest = ingest
        self._destination = destination
        self._headers = headers
        self._principal = principal
        self._producers = producers
        self._agent = agent

    def take(self, body: bytes, request: PendingRequest) -> None:
        self._request = request
        draft = draft_of_request(self._destination, self._headers, body)
        self._producers.note(self._principal.name, draft.source, self._agent)
        self._ingest.accept_with(draft, self._principal, self)

    def done(self) -> bool:
        return False

    def set_result(self, accepted: AcceptedMessage, /) -> None:
        self._request.answer(202, content_of(accepted))

    def set_exception(self, error: Exception, /) -> None:
        self._request.refuse(error)
