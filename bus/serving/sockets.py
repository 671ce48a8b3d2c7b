"""Limits on WebSockets: the pages hold one each, and there are no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final
from urllib.parse import unquote_to_bytes

from bus.http.problem import Problem, problem
from bus.security.addresses import Network
from bus.security.clients import client_address, network_of

PAGES: Final = "/admin/_nicegui_ws/"
_NOT_HERE: Final = problem(404, "there is no WebSocket here", hint="the pages of an admin process have one each")
_TOO_MANY: Final = problem(503, "all sockets that this process holds are taken", hint="close pages, or set sockets")
_TOO_MANY_OF_ONE: Final = problem(
    429, "this address holds as many sockets as one may", hint="close pages, or set sockets_per_address"
)


class Sockets:
    """Decides which WebSockets may be opened (``UpgradePolicy``), and counts those that are open.

    Parameters
    ----------
    most, per_address
        How many may be open at once: in this process, and of one customer's addresses (a /64 of IPv6).
    proxies
        Networks of proxies whose ``X-Forwarded-For`` says who connects.
    has_pages
        Whether this process has pages.
    """

    def __init__(self, most: int, per_address: int, proxies: Collection[Network], *, has_pages: bool) -> None:
        self._most = most
        self._per_address = per_address
        self._proxies = proxies
        self._has_pages = has_pages
        self._open: Counter[str] = Counter()

    def refusal(self, target: bytes, headers: Sequence[tuple[bytes, bytes]], peer: str) -> Problem | None:
        """Return why this connection may not become a WebSocket, None when it may."""
        path = unquote_to_bytes(target.partition(b"?")[0])
        if not self._has_pages or not path.startswith(PAGES.encode()):
            return _NOT_HERE
        if self._open.total() >= self._most:
            return _TOO_MANY
        return _TOO_MANY_OF_ONE if self._open[self.holder(headers, peer)] >= self._per_address else None

    def holder(self, headers: Sequence[tuple[bytes, bytes]], peer: str) -> str:
        """Return the client that a socket is counted for: an address, or a /64 of IPv6."""
        return network_of(client_address(peer, headers, self._proxies))

    def enter(self, holder: str) -> None:
        """Count a socket."""
        self._open[holder] += 1

    def leave(self, holder: str) -> None:
        """Count one less."""
        self._open[holder] -= 1
        if not self._open[holder]:
            del self._open[holder]
