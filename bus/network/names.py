"""Names to addresses by /etc/hosts and DNS, without a thread for a question: no name delays another."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import aiodns

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]

_RESOLV_CONF: Final = "/etc/resolv.conf"
_TRIES: Final = 5
"""Questions to each name server before it counts as silent: some 6 s, since c-ares waits as long as answers took."""


def ascii_name(name: str) -> str:
    """Return a host name as DNS has it: mapped by UTS 46, not transitionally, and encoded by IDNA 2008 (RFC 5891).

    Browsers and curl do the same. Raises ``UnicodeError``.
    """
    if name.isascii():
        return name
    import idna  # noqa: PLC0415 - few names need it

    labels = idna.uts46_remap(name, std3_rules=False, transitional=False).split(".")
    return ".".join(label if label.isascii() else idna.alabel(label).decode() for label in labels)


def is_http_url(url: str) -> bool:
    """Whether a text is a URL of http or https with a valid host and port."""
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets, a port, or characters that NFKC turns into those between the parts of a URL
        return False


class DnsLookup:
    """Asks /etc/hosts and the name servers and search domains of /etc/resolv.conf, by c-ares.

    Belongs to the event loop that first asks. ``servers`` (``ADDRESS:PORT``) are asked instead of those of resolv.conf.
    """

    def __init__(self, servers: Sequence[str] = ()) -> None:
        self._servers = servers
        self._resolver: aiodns.DNSResolver | None = None
        self._configuration: tuple[int, ...] | None = None

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, IPv6 and IPv4, best first.

        Raises
        ------
        socket.gaierror
            ``EAI_NONAME``: the name has no address. ``EAI_AGAIN``: no name server answered that.
        """
        from aiodns.error import ARES_EBADNAME, ARES_ENODATA, ARES_ENOTFOUND, DNSError  # noqa: PLC0415 - 15 ms

        resolver = self._current()
        try:
            found = await resolver.getaddrinfo(ascii_name(host), socket.AF_UNSPEC, port=port, type=socket.SOCK_STREAM)
        except UnicodeError as error:
            raise socket.gaierror(socket.EAI_NONAME, f"{host} is no host name: {error}") from error
        except DNSError as error:
            if error.args[0] in (ARES_EBADNAME, ARES_ENODATA, ARES_ENOTFOUND):
                raise socket.gaierror(socket.EAI_NONAME, f"{host} not found") from error
            raise socket.gaierror(socket.EAI_AGAIN, f"no name server answered for {host}") from error
        return list(dict.fromkeys(node.addr[0].decode() for node in found.nodes))

    def close(self) -> None:
        """Stop asking; questions under way fail. Called before the event loop is closed."""
        if self._resolver is not None:
            self._resolver.cancel()
            self._resolver = None

    def _current(self) -> aiodns.DNSResolver:
        """Return the resolver by the current resolv.conf: c-ares does not see a change of one that is mounted."""
        from aiodns import DNSResolver  # noqa: PLC0415 - 15 ms

        configuration = _state_of(_RESOLV_CONF)
        if self._resolver is None or configuration != self._configuration:
            self.close()
            self._resolver = DNSResolver(self._servers, tries=_TRIES)
            self._configuration = configuration
        return self._resolver


def _state_of(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path)  # noqa: PTH116 - of a path in memory
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
