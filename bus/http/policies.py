"""Policies of a server's protocol: who may connect, and who may open a WebSocket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from bus.http.asgi import Field
from bus.http.problem import Problem

KNOWN: Final = "bus.known"
"""Key in a request's ASGI scope: whether it has a valid key, a session or the like."""


class ClosableConnection(Protocol):
    """A connection that can be closed."""

    def drop(self) -> None:
        """Close it at once."""
        ...


class Caller(ClosableConnection, Protocol):
    """A connection, as one among all of a server."""

    @property
    def idle_since(self) -> float | None:
        """Since when (loop time) it waits for its peer; None while a request is answered."""
        ...


class CallerPolicy(Protocol):
    """Decides how many connections there are, and whose."""

    def admits(self, peer: str) -> bool:
        """Whether an address may open one more connection; if so it counts until a request on it has a valid key."""
        ...

    def wait(self, connection: ClosableConnection) -> None:
        """Count a connection over the share of its address, and drop the first of those if they are too many."""
        ...

    def leave(self, connection: ClosableConnection) -> None:
        """Count one of those no more; no effect for one that is not counted."""
        ...

    def add(self, connection: Caller, peer: str, *, is_known: bool = False) -> None:
        """Count a new connection from an address, or drop it; one that ``is_known`` counts for no address."""
        ...

    def mark_known(self, connection: Caller) -> None:
        """Learn that a request on a connection has a valid key."""
        ...

    def remove(self, connection: Caller) -> None:
        """Count a connection no more; no effect for one that is not counted."""
        ...

    def has_credentials(self, headers: Sequence[Field]) -> bool:
        """Whether a request with these headers has a valid key or the like."""
        ...

    def pace(self, connection: Caller, size: int) -> float:
        """Take bytes that a connection without a key has sent from the share of its address.

        Return the seconds until more of them may be read.
        """
        ...

    def take_request(self, headers: Sequence[Field], peer: str) -> bool:
        """Take a request that no application limits from the share of its address; False if that is used up."""
        ...


class UpgradePolicy(Protocol):
    """Decides which connections may become WebSockets."""

    def refusal(self, target: bytes, headers: Sequence[tuple[bytes, bytes]], peer: str) -> Problem | None:
        """Return why this connection may not, None when it may."""
        ...
