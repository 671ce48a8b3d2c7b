"""Connections that wait for their next request; the one used last is used first."""

from __future__ import annotations

from typing import NamedTuple

from bus.posters.connection import Connection

Key = tuple[str, str, int]


class PoolLimits(NamedTuple):
    """How many connections are kept, and how long.

    Attributes
    ----------
    idle_seconds
        A connection that was not used for so long is closed.
    max_age
        Seconds after which a connection is not kept any more, so that a change in DNS is followed.
    per_host
        Idle connections per scheme, host and port.
    total
        Idle connections in all.
    """

    idle_seconds: float = 30.0
    max_age: float = 300.0
    per_host: int = 128
    total: int = 1024


class Pool:
    """Idle connections by scheme, host and port."""

    def __init__(self, limits: PoolLimits) -> None:
        self._limits = limits
        self._idle: dict[Key, list[Connection]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def has(self, key: Key) -> bool:
        """Whether there is a connection to take."""
        stack = self._idle.get(key)
        while stack:
            if not stack[-1].closed:
                return True
            stack.pop()
            self._count -= 1
        return False

    def take(self, key: Key) -> Connection | None:
        """Take the connection that was given back last, or None."""
        stack = self._idle.get(key)
        while stack:
            connection = stack.pop()
            self._count -= 1
            if not connection.closed:
                return connection
        return None

    def give(self, key: Key, connection: Connection) -> None:
        """Keep a connection whose exchange just ended for the next one, or close it when there are enough."""
        idle, oldest, per_host, total = self._limits
        now = connection.ended
        stack = self._idle.get(key)
        if stack is None:
            stack = self._idle[key] = []
        if len(stack) < per_host and self._count < total and now < connection.born + oldest:
            stack.append(connection)
            self._count += 1
            connection.rest_until(now + idle)
        else:
            connection.close()

    def drop(self, key: Key, connection: Connection) -> None:
        """Forget a connection that was lost, if it was idle."""
        stack = self._idle.get(key, [])
        if connection in stack:
            stack.remove(connection)
            self._count -= 1
        if not stack:
            self._idle.pop(key, None)
