"""Lookups that were answered a moment ago, without an application: most of them are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from bus.http.asgi import Field
from bus.http.endpoint import Answering, Taker
from bus.telemetry import metrics
from lookup.lookups import Lookups
from lookup.nsqlookupd import ACCEPT, VIA
from lookup.query import LOOKUP, Malformed, read_query
from lookup.replies import Reply

_PREFIX: Final = LOOKUP + b"?"
_VIA: Final = VIA.encode()
_ACCEPT: Final = ACCEPT.encode()


class _Known:
    """A request whose answer is known."""

    __slots__ = ("_reply",)

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def take(self, body: bytes, request: Answering) -> None:  # noqa: ARG002 - a lookup has none
        """Answer in the next turn."""
        status, content, fields = self._reply
        asyncio.get_running_loop().call_soon(lambda: request.answer(status, content, *fields))


class LookupEndpoint:
    """Takes lookups that need nobody to be asked; the application has all others."""

    def __init__(self, lookups: Lookups) -> None:
        self._lookups = lookups
        self._answered = metrics.LOOKUPS.labels("cached")

    def begin(self, method: bytes, target: bytes, headers: Sequence[Field]) -> Taker | None:
        """Return who takes a lookup whose answer is known."""
        if method != b"GET" or not target.startswith(_PREFIX):
            return None
        is_plain = False
        for name, value in headers:
            if name == b"accept":
                is_plain = _ACCEPT in value
            elif name == _VIA:
                return None
        try:
            replies = self._lookups.fresh(read_query(target[len(_PREFIX) :]))
        except Malformed:
            return None
        if replies is None:
            return None
        self._answered.inc()
        return _Known(replies.form(is_plain=is_plain))
