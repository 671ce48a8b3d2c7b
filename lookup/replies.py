"""Answers as they are sent: in version 1.0 of nsqlookupd's API, or in the envelope of what came before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from bus.http.asgi import Field
from lookup.nsqlookupd import ACCEPT

VERSION_1: Final = (b"x-nsq-content-type", b"nsq; version=1.0")
MISSING: Final = b"bus-lookup-missing"
"""Header with the clusters that an answer lacks."""
STALE: Final = b"bus-lookup-stale"
"""Header with the age in seconds of an answer that was given before, since no cluster answers now."""
_OK: Final = 200
_FAILURE: Final = 500
_UNAVAILABLE: Final = 503
_encode: Final = msgspec.json.Encoder().encode


class Reply(NamedTuple):
    """A status, a body, and header fields."""

    status: int
    body: bytes
    fields: tuple[Field, ...]


class Replies(NamedTuple):
    """One answer in both forms; a client gets the one that it accepts."""

    plain: Reply
    enveloped: Reply

    def form(self, *, is_plain: bool) -> Reply:
        """Return the one for a client that accepts version 1.0, or for one that does not."""
        return self.plain if is_plain else self.enveloped


def answered(content: Mapping[str, Any], *, has_envelope: bool, fields: Iterable[Field] = ()) -> Replies:
    """Return a good answer; ``has_envelope`` wraps it for clients that do not accept version 1.0, as the fork does."""
    plain = Reply(_OK, _encode(content), (VERSION_1, *fields))
    if not has_envelope:
        return Replies(plain, plain)
    return Replies(plain, Reply(_OK, _encode({"status_code": _OK, "status_txt": "OK", "data": content}), (*fields,)))


def refused(status: int, message: str, *, has_envelope: bool, fields: Iterable[Field] = ()) -> Replies:
    """Return a refusal; in the fork's envelope each is a 500, as there, but for a 503, which the fork has not."""
    plain = Reply(status, _encode({"message": message}), (VERSION_1, *fields))
    if not has_envelope:
        return Replies(plain, plain)
    code = status if status == _UNAVAILABLE else _FAILURE
    body = _encode({"status_code": code, "status_txt": message, "data": None})
    return Replies(plain, Reply(code, body, (*fields,)))


def missing(clusters: Iterable[str]) -> list[Field]:
    """Return the header that names clusters, if there are any."""
    names = ",".join(clusters)
    return [(MISSING, names.encode("ascii", "replace"))] if names else []


def accepts_version_1(headers: Iterable[Field]) -> bool:
    """Whether a client accepts answers without an envelope."""
    return any(name == b"accept" and ACCEPT.encode() in value for name, value in headers)
