"""The URL of a subscriber, taken apart once and strictly; what is not clearly an http(s) URL is refused."""

from __future__ import annotations

import re
import socket
from typing import Final, NamedTuple
from urllib.parse import quote

from bus.errors import EgressDenied
from bus.localized_text import localized
from bus.network.names import ascii_name

_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\#\s]")
_URL: Final = re.compile(r"(https?)://([^/?]*)(.*)", re.IGNORECASE)
_AUTHORITY: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+))(?::([0-9]{1,5}))?")
_HOST: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*"
)
_NUMERIC_END: Final = re.compile(r"(?:^|\.)(?:[0-9]+|0x[0-9a-f]*)$")
_PATH_SAFE: Final = "/?%:@!$&'()*+,;=-._~[]|^`{}\"<>"
_PORTS: Final = {"http": 80, "https": 443}
_HIGHEST_PORT: Final = 65535


class Endpoint(NamedTuple):
    """Where a URL leads.

    Attributes
    ----------
    scheme
        ``http`` or ``https``.
    host
        ASCII (IDNA), lower case, without brackets or a trailing dot.
    port
        1-65535; the scheme's own when the URL names none.
    authority
        What goes into the Host header.
    path
        The request target: path and query, percent-encoded where not ASCII, at least ``/``.
    literals
        The addresses, when the host is a literal address in any spelling that the resolver understands.
    """

    scheme: str
    host: str
    port: int
    authority: str
    path: str
    literals: tuple[str, ...]


def parse_url(url: str) -> Endpoint:
    """Take an http(s) URL apart.

    Raises
    ------
    EgressDenied
        Another scheme, user info, a fragment, white space or control characters, or a host or port that is not valid.
    """
    scheme, authority, path = _split(url)
    host, port = _host_and_port(scheme, authority)
    literals = literal_addresses(host)
    if not literals and looks_numeric(host):
        raise EgressDenied(localized("The host {host} is neither a name nor an address.", host=repr(host)))
    return Endpoint(scheme, host, port, _host_header(scheme, host, port), _request_target(path), literals)


def normal_host(name: str) -> str:
    """Return a host name as it is asked of the resolver: IDNA 2008, lower case, no trailing dot.

    Raises
    ------
    EgressDenied
        It is not a host name.
    """
    try:
        host = ascii_name(name)
    except UnicodeError as error:
        raise EgressDenied(localized("The host {name} is not a valid name.", name=repr(name))) from error
    host = host.lower().removesuffix(".")
    if not _HOST.fullmatch(host):
        raise EgressDenied(localized("The host {name} is not a valid name.", name=repr(name)))
    return host


def looks_numeric(host: str) -> bool:
    """Return whether a host can only be an address: its last label is a number, which no top-level domain is."""
    return _NUMERIC_END.search(host) is not None


def literal_addresses(host: str) -> tuple[str, ...]:
    """Return the addresses of a literal host (``127.1``, ``0x7f.1``, ``2130706433``...), none for a name.

    The system's own resolver reads the spelling, so that it is the same as at connect; nothing is asked of DNS.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ()
    return tuple(str(entry[4][0]) for entry in found)


def _split(url: str) -> tuple[str, str, str]:
    if found := _FORBIDDEN.search(url):
        raise EgressDenied(localized("The URL contains {text}, which is not allowed.", text=repr(found.group())))
    match = _URL.fullmatch(url)
    if match is None:
        raise EgressDenied(localized("Only http:// and https:// URLs are called."))
    scheme, authority, path = match.groups()
    if "@" in authority:
        raise EgressDenied(
            localized("The URL contains user information."), hint=localized("Send credentials in a header.")
        )
    return scheme.lower(), authority, path


def _host_and_port(scheme: str, authority: str) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        raise EgressDenied(localized("The host or port in {authority} is not valid.", authority=repr(authority)))
    bracketed, name, digits = match.groups()
    port = int(digits) if digits else _PORTS[scheme]
    if not 0 < port <= _HIGHEST_PORT:
        raise EgressDenied(localized("The port {port} is not valid.", port=port))
    return (_address_in_brackets(bracketed) if bracketed else normal_host(name)), port


def _address_in_brackets(text: str) -> str:
    addresses = literal_addresses(text) if ":" in text else ()
    if not addresses:
        raise EgressDenied(localized("[{text}] is not an IPv6 address.", text=text))
    return addresses[0]


def _host_header(scheme: str, host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port == _PORTS[scheme] else f"{name}:{port}"


def _request_target(path: str) -> str:
    return quote(path if path.startswith("/") else f"/{path}", safe=_PATH_SAFE)
