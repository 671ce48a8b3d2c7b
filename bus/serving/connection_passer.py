"""Connections that go from one process of a port to another, with what was read of them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, NamedTuple

# What each process serves itself, of the common port as well.
_SERVED: Final = (b"/v1/", b"/healthz", b"/internal/")
_MARK: Final = b"."
_CONNECTION_AND_TEXT: Final = 2


class PassedConnection(NamedTuple):
    """A connection, and what its peer has sent so far."""

    connection: socket.socket
    read: bytes


class ConnectionPasser:
    """Gives connections to the first process (a ``PeerForwarder``)."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def serves(self, target: bytes) -> bool:
        """Whether a request is served by every process."""
        return target.startswith(_SERVED)

    def pass_on(self, connection: int, read: bytes) -> bool:
        """Give a connection away, with what was read of it; False when the first process takes none for now.

        While that one is started again they wait for it, as far as the system keeps them.
        """
        text = os.memfd_create("request")
        try:
            with os.fdopen(text, "wb", closefd=False) as file:
                file.write(read)
            socket.send_fds(self._channel, [_MARK], [connection, text])
        except OSError:
            return False
        finally:
            os.close(text)
        return True


async def take_passed(channel: socket.socket, adopt: Callable[[PassedConnection], Coroutine[Any, Any, None]]) -> None:
    """Have each connection that comes adopted, until cancelled."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(channel, readable.set)
    try:
        async with asyncio.TaskGroup() as group:
            while True:
                await readable.wait()
                readable.clear()
                for passed in _received(channel):
                    group.create_task(adopt(passed))
    finally:
        loop.remove_reader(channel)


def _received(channel: socket.socket) -> Iterator[PassedConnection]:
    while True:
        try:
            mark, descriptors, _, _ = socket.recv_fds(channel, len(_MARK), _CONNECTION_AND_TEXT)
        except BlockingIOError:
            return
        if not mark:
            return
        if len(descriptors) != _CONNECTION_AND_TEXT:  # this process has no room for another file
            for descriptor in descriptors:
                os.close(descriptor)
            continue
        connection, text = descriptors
        with os.fdopen(text, "rb") as file:
            file.seek(0)
            yield PassedConnection(socket.socket(fileno=connection), file.read())
