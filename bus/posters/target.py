"""The target of a subscription's requests, with all parts of their head that are known in advance."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from bus.domain.headers import EXTENDED, wire_value

INLINE_BODY: Final = 64 * 1024
"""A body up to this many bytes is joined to its head and written at once."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROLS: Final = bytes(set(range(32)) - {9} | {127})
_MOST_NAMES: Final = 256
_RESERVED: Final = frozenset(
    (
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
_DEFAULTS: Final = {"user-agent": "pier-bus"}


class Endpoint(Protocol):
    """A URL taken apart; `bus.security.urls.Endpoint` is one."""

    @property
    def scheme(self) -> str:
        """``http`` or ``https``."""
        ...

    @property
    def host(self) -> str:
        """ASCII name or address, without brackets."""
        ...

    @property
    def port(self) -> int:
        """1-65535."""
        ...

    @property
    def authority(self) -> str:
        """The Host header."""
        ...

    @property
    def path(self) -> str:
        """The request target, ASCII."""
        ...

    @property
    def literals(self) -> tuple[str, ...]:
        """The addresses of a literal host; empty for a name."""
        ...


class HttpTarget:
    """A parsed URL with its constant headers; made once per subscription, shared by all its requests.

    Parameters
    ----------
    url
        As given.
    endpoint
        The URL taken apart and checked.
    headers
        Sent with every request. They win over a request's own header of the same name.
    method
        Of the request.

    Raises
    ------
    ValueError
        A header name or value that HTTP does not allow, or a name that the poster sets itself.
    """

    __slots__ = ("_head", "_lines", "_taken", "endpoint", "key", "url")

    def __init__(self, url: str, endpoint: Endpoint, headers: Mapping[str, str], method: str = "POST") -> None:
        self.url = url
        self.endpoint = endpoint
        self.key = (endpoint.scheme, endpoint.host, endpoint.port)
        self._taken = frozenset(name.lower() for name in headers)
        self._lines: dict[str, str] = {}
        defaults = {name: value for name, value in _DEFAULTS.items() if name not in self._taken}
        constant = _encode([_line(name) + value for name, value in {**defaults, **headers}.items()])
        first = f"{method} {endpoint.path} HTTP/1.1\r\nhost: {endpoint.authority}\r\naccept-encoding: identity"
        self._head = first.encode("ascii") + constant

    def render(self, headers: Sequence[tuple[str, str]], body: bytes) -> tuple[bytes, bytes]:
        """Return the first bytes to write and the rest: a small body is part of the first, a big one the rest.

        Values that are not ASCII are sent as `bus.domain.headers.wire_value` says.

        Raises
        ------
        ValueError
            A header name or value that HTTP does not allow, or a name that the poster sets itself.
        """
        lines = self._lines
        try:
            own = _encode([lines[name] + value for name, value in headers])
        except KeyError:
            own = _encode([self._prefix(name) + value for name, value in headers if name.lower() not in self._taken])
        if len(body) <= INLINE_BODY:
            return b"%b%b\r\ncontent-length: %d\r\n\r\n%b" % (self._head, own, len(body), body), b""
        return b"%b%b\r\ncontent-length: %d\r\n\r\n" % (self._head, own, len(body)), body

    def shown(self, headers: Sequence[tuple[str, str]], body: bytes) -> list[tuple[str, str]]:
        """Return the header fields that ``render`` writes; raises as it does."""
        head = self.render(headers, body)[0].partition(b"\r\n\r\n")[0]
        pairs = (line.partition(": ") for line in head.decode().split("\r\n")[1:])
        return [(name, value) for name, _, value in pairs]

    def _prefix(self, name: str) -> str:
        prefix = _line(name)
        if len(self._lines) < _MOST_NAMES:
            self._lines[name] = prefix
        return prefix


def _line(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} is not a header name")
    if name.lower() in _RESERVED:
        raise ValueError(f"the header {name!r} is set by the poster")
    return f"\r\n{name}: "


def _encode(lines: list[str]) -> bytes:
    """Join lines that start with CR LF each; any further control character is an attempt to add a line."""
    joined = "".join(lines)
    text = joined.encode()
    if len(text) - len(text.translate(None, _CONTROLS)) != 2 * len(lines):
        raise ValueError("a header value contains a control character")
    if not joined.isascii() or EXTENDED in joined:
        pairs = (line.partition(": ") for line in lines)
        text = "".join(f"{name}: {wire_value(value)}" for name, _, value in pairs).encode()
    return text
