"""Rules for the head of a request that the parser does not check (RFC 9112, sections 2.3, 3.2 and 6)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.http.problem import Problem, problem

SPOKEN: Final = "this port speaks HTTP/1.1 without TLS"
BAD_TARGET: Final = problem(
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


class Target(NamedTuple):
    """A target in origin form or ``*``, and the host that it named instead of Host; empty when it named none."""

    origin: bytes
    host: bytes


def fault_of_version(version: str) -> Problem | None:
    """Return why a request of this version is refused."""
    if version in ("1.1", "1.0"):
        return None
    return _NO_VERSION if version == "0.9" else _OTHER_VERSION


def target_of(method: bytes, target: bytes) -> Target | None:
    """Return a target that does not begin with a slash in parts; None if the request is to be refused."""
    if target == b"*" and method == b"OPTIONS":
        return Target(target, b"")
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        return None
    host, path = found.groups(b"")
    if not path and method == b"OPTIONS":
        return Target(b"*", host)
    return Target(path if path.startswith(b"/") else b"/" + path, host)


def fault_of_hosts(hosts: Sequence[bytes], version: str) -> Problem | None:
    """Return why a request with these Host fields is refused."""
    if len(hosts) > 1:
        return _HOSTS
    if not hosts:
        return _NO_HOST if version == "1.1" else None
    return None if _HOST.fullmatch(hosts[0]) else _BAD_HOST


def fault_of_codings(values: Sequence[bytes]) -> Problem | None:
    """Return why a request with these Transfer-Encoding fields is refused.

    An empty element is refused as well: a proxy in front of the bus may read such a list otherwise.
    """
    *before, last = (coding.strip(b" \t").lower() for coding in b",".join(values).split(b","))
    if last != b"chunked" or not {b"chunked", b""}.isdisjoint(before):
        return _NOT_CHUNKED
    return _CODING if before else None
