"""Lookups of clients, without an application for each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from bus.http.asgi import Field
from bus.http.endpoint import PendingRequest, RequestHandler
from bus.telemetry import metrics
from lookup.lookups import Lookups
from lookup.nsqlookupd import ACCEPT, VIA
from lookup.query import LOOKUP, MalformedQuery, Query, read_query
from lookup.replies import Replies

_PREFIX: Final = LOOKUP + b"?"
# Of other proxies, and of clients that send a body, which nothing would limit.
_OTHERS: Final = frozenset({VIA.encode(), b"content-length", b"transfer-encoding"})
_ACCEPT: Final = ACCEPT.encode()


class _Lookup:
    """A lookup, with the answer when it is known already."""

    __slots__ = ("_is_plain", "_known", "_lookups", "_query")

    def __init__(self, lookups: Lookups, query: Query, known: Replies | None, *, is_plain: bool) -> None:
        self._lookups = lookups
        self._query = query
        self._known = known
        self._is_plain = is_plain

    def take(self, body: bytes, request: PendingRequest) -> None:  # noqa: ARG002 - a lookup has none
        """Answer in a later turn."""
        answer = partial(_answer, request, self._is_plain)
        if self._known is not None:
            asyncio.get_running_loop().call_soon(answer, self._known)
        else:
            self._lookups.begin(self._query, answer)


def _answer(request: PendingRequest, is_plain: bool, replies: Replies) -> None:
    status, content, fields = replies.form(is_plain=is_plain)
    request.answer(status, content, *fields)


class LookupEndpoint:
    """Takes lookups of clients; the application has those of proxies, and whatever else there is."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._cached, self._asked = metrics.LOOKUPS.labels("cached"), metrics.LOOKUPS.labels("asked")

    def begin(self, method: bytes, target: bytes, headers: Sequence[Field]) -> RequestHandler | None:
        """Return who takes a lookup that can be read."""
        if method != b"GET" or not target.startswith(_PREFIX):
            return None
        is_plain = False
        for name, value in headers:
            if name == b"accept":
                is_plain = _ACCEPT in value
            elif name in _OTHERS:
                return None
        try:
            query = read_query(target[len(_PREFIX) :])
        except MalformedQuery:
            return None
        known = self._lookups.fresh(query)
        (self._asked if known is None else self._cached).inc()
        return _Lookup(self._lookups, query, known, is_plain=is_plain)
