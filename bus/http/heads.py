"""Rules for the head of a request, and its trailers, that the parser does not check (RFC 9112, sections 2.3 to 7)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from bus.http.asgi import Field
from bus.http.problem import Problem, problem

LONGEST_HEAD: Final = 65_536
_BETWEEN: Final = len(": \r\n")
_SPACES: Final = (b" ", b"\t")
_SHORTER: Final = "put what is long into the body"
_TOO_LONG: Final = problem(431, f"the request's line and headers are longer than {LONGEST_HEAD} bytes", hint=_SHORTER)
_LONG_TARGET: Final = problem(414, f"the target makes the head longer than {LONGEST_HEAD} bytes", hint=_SHORTER)
LONG_TRAILERS: Final = problem(
    431, f"what comes after the body is longer than {LONGEST_HEAD} bytes; nothing of it was stored", hint=_SHORTER
)
_BAD_TRAILER: Final = problem(
    400, "a trailer is about the connection; nothing of the request was stored", hint="send Connection as a header"
)
_OF_CONNECTION: Final = frozenset({b"connection", b"proxy-connection"})
SPOKEN: Final = "this port speaks HTTP/1.1 without TLS"
_BAD_TARGET: Final = problem(
    400, "the target is neither a path nor an http URL; nothing of the request was stored", hint="send a path"
)
_NAME: Final = rb"(?:[0-9A-Za-z._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
_LITERAL: Final = rb"\[[0-9A-Za-z._~!$&'()*+,;=:%-]+\]"  # with the zone that clients leave in a link-local address
_PORT: Final = rb"(?::[0-9]*)?"
_HOST: Final = re.compile(rb"(?:%b|%b*)%b" % (_LITERAL, _NAME, _PORT))
_ABSOLUTE: Final = re.compile(rb"(?i:https?)://((?:%b|%b+)%b)([/?].*)?" % (_LITERAL, _NAME, _PORT), re.DOTALL)
_HOSTS: Final = problem(400, "the request has more than one Host; nothing of it was stored", hint=SPOKEN)
_NO_HOST: Final = problem(
    400, "the request has no Host; nothing of it was stored", hint="send one: HTTP/1.1 demands it"
)
_BAD_HOST: Final = problem(
    400, "Host is neither a name nor an address; nothing of the request was stored", hint="send NAME or NAME:PORT"
)
_NO_VERSION: Final = problem(400, "the request has no version of HTTP; nothing of it was stored", hint=SPOKEN)
_OTHER_VERSION: Final = problem(505, "this version of HTTP is not supported; nothing was stored", hint=SPOKEN)
_NOT_CHUNKED: Final = problem(
    400, "Transfer-Encoding does not end with one chunked; nothing was stored", hint="send the body as it is"
)
_CODING: Final = problem(
    501, "no transfer coding but chunked is known; nothing of it was stored", hint="send the body as it is"
)
_LONGEST_FIELD: Final = 8_000  # of a handshake, and of its target: the parser of WebSockets takes little more
_MOST_FIELDS: Final = 100
_LONG_HANDSHAKE: Final = problem(
    431,
    f"a WebSocket's handshake has at most {_MOST_FIELDS} headers, and at most {_LONGEST_FIELD} bytes in each",
    hint="have the browser forget cookies of other applications on this host",
)
NO_TUNNEL: Final = problem(400, "this port opens no tunnels; nothing was stored", hint=SPOKEN)
NO_HANDSHAKE: Final = problem(
    400, "a WebSocket is opened by a GET without a body, on a connection that answers nothing else", hint=SPOKEN
)


def size_of(fields: Sequence[Field]) -> int:
    """Return the bytes of header fields."""
    return sum(len(name) + len(value) + _BETWEEN for name, value in fields)


def too_long(target: bytes) -> Problem:
    """Return the refusal of a head over the limit: it is the target's where that is the larger part."""
    return _LONG_TARGET if len(target) > LONGEST_HEAD // 2 else _TOO_LONG


def read_fields(fields: list[Field], version: str) -> tuple[Problem | None, int | None, bool]:
    """Return why fields are refused, the length of the body (None if it is chunked), and whether 100 is expected.

    White space behind values is taken away, which the parser leaves (RFC 9110, section 5.5).
    """
    hosts: list[bytes] = []
    codings: list[bytes] = []
    length, expects = 0, False
    for place, (name, value) in enumerate(fields):
        if value[-1:] in _SPACES:
            value = value.rstrip(b" \t")  # noqa: PLW2901 - as it is from here on
            fields[place] = (name, value)
        if name == b"host":
            hosts.append(value)
        elif name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            codings.append(value)
        elif name == b"expect" and value.lower() == b"100-continue":
            expects = version != "1.0"  # RFC 9110, section 10.1.1
    if version not in ("1.1", "1.0"):
        fault: Problem | None = _NO_VERSION if version == "0.9" else _OTHER_VERSION
    else:
        fault = (_fault_of_codings(codings) if codings else None) or _fault_of_hosts(hosts, version)
    return fault, None if codings else length, expects


def _fault_of_hosts(hosts: Sequence[bytes], version: str) -> Problem | None:
    if len(hosts) > 1:
        return _HOSTS
    if not hosts:
        return _NO_HOST if version == "1.1" else None
    return None if _is_host(hosts[0]) else _BAD_HOST


@lru_cache(maxsize=16)
def _is_host(value: bytes) -> bool:
    return _HOST.fullmatch(value) is not None


def _fault_of_codings(values: Sequence[bytes]) -> Problem | None:
    """Return why a request with these Transfer-Encoding fields is refused.

    An empty element is refused as well: a proxy in front of the bus may read such a list otherwise.
    """
    *before, last = (coding.strip(b" \t").lower() for coding in b",".join(values).split(b","))
    if last != b"chunked" or not {b"chunked", b""}.isdisjoint(before):
        return _NOT_CHUNKED
    return _CODING if before else None


def origin_of(method: bytes, target: bytes, fields: list[Field]) -> tuple[bytes, Problem | None]:
    """Return a target without a slash in front in origin form, or ``*``, and why it is refused.

    A host that it names replaces Host.
    """
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        return target, None if (method, target) == (b"OPTIONS", b"*") else _BAD_TARGET
    host, path = found.groups(b"")
    fields[:] = [(b"host", host), *(field for field in fields if field[0] != b"host")]
    if not path and method == b"OPTIONS":
        return b"*", None
    return (path if path.startswith(b"/") else b"/" + path), None


def fault_of_handshake(method: bytes, target: bytes, fields: Sequence[Field]) -> Problem | None:
    """Return why a request does not open a WebSocket."""
    if method != b"GET" or any(name in (b"content-length", b"transfer-encoding") for name, _ in fields):
        return NO_HANDSHAKE
    longest = max(len(target), *(len(name) + len(value) for name, value in fields))
    return _LONG_HANDSHAKE if longest > _LONGEST_FIELD or len(fields) > _MOST_FIELDS else None


def without_upgrade(method: bytes, target: bytes, version: str, fields: Sequence[Field]) -> bytes:
    """Return the head of the same request without the offer of another protocol."""
    lines = [b"%b: %b\r\n" % field for field in fields if field[0] != b"upgrade"]
    return b"%b %b HTTP/%b\r\n%b\r\n" % (method, target, version.encode(), b"".join(lines))


def fault_of_trailers(fields: Sequence[Field]) -> Problem | None:
    """Return why what comes after a chunked body is refused; the parser obeys trailers about the connection."""
    if size_of(fields) > LONGEST_HEAD:
        return LONG_TRAILERS
    return _BAD_TRAILER if any(name in _OF_CONNECTION for name, _ in fields) else None
