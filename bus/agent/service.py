"""One agent from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from typing import Final, NamedTuple

from bus import gc_tuning
from bus.agent.admission import Admission
from bus.agent.app import AgentApp
from bus.agent.condition import Condition
from bus.agent.endpoint import AgentEndpoint
from bus.agent.intake import Intake
from bus.agent.options import AgentOptions
from bus.agent.unix_socket import listening
from bus.client import Bus
from bus.errors import BusError, ConfigurationError, SpoolError
from bus.files import allow_open_files, make_directory, most_open_files
from bus.http.problem import Problem, problem
from bus.http.protocol import HttpProtocol
from bus.http.server import HttpServer, bind, configured, url_of
from bus.network import event_loop
from bus.network.descriptors import Descriptors
from bus.security.callers import Callers, Share
from bus.telemetry import metrics
from bus.telemetry.logs import configure_logs

_log = logging.getLogger(__name__)
_RECEIVE_TIMEOUT: Final = 30.0
DRAIN_TIMEOUT: Final = 5.0
"""Seconds that a stop waits for requests in flight, and then again while the receiver takes what waits on disk."""
# The thread that stores waits at most this long for the interpreter while the event loop is busy.
_SWITCH_INTERVAL: Final = 0.001
_SHARE: Final = Share(requests=200.0, connections=256)
_NO_SOCKET: Final = problem(404, "there is no WebSocket here")


class Announcement(NamedTuple):
    """Where an agent is called, and what it does with what it gets."""

    url: str
    socket: str
    spool: str
    receiver: str

    @property
    def lines(self) -> list[str]:
        """What a person reads."""
        beside = f" and on {self.socket}" if self.socket else ""
        return [
            f"agent on {self.url}{beside}",
            f"messages are kept in {self.spool} and sent to {self.receiver}",
        ]


def serve(options: AgentOptions, announce: Callable[[Announcement], None]) -> int:
    """Take messages until SIGTERM or SIGINT; return the process's exit code. ``announce`` is called once it serves.

    A stop answers requests in flight and sends what the receiver takes at once. What is left is sent by the next agent
    on the same spool directory, or a sweeper.

    Raises
    ------
    BusError
        The start is not possible.
    """
    configure_logs(level="info", json=False)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    allow_open_files()
    _check_spool(options)
    with ExitStack() as stack:
        listeners = [stack.enter_context(bind(options.host, options.port))]
        if options.socket is not None:
            listeners.append(stack.enter_context(listening(options.socket)))
        try:
            event_loop.run(_serve(options, listeners, announce))
        except BaseExceptionGroup as group:  # what `except*` raises stays in a group before Python 3.11.4
            errors, others = group.split(BusError)
            if errors is None or others is not None:
                raise
            raise errors.exceptions[0] from None
    return 0


def _check_spool(options: AgentOptions) -> None:
    """Refuse a directory that cannot be used; one whose disk is full for now can."""
    try:
        make_directory(options.spool)
    except OSError as error:
        raise ConfigurationError(
            f"cannot keep messages in {options.spool}: {error.strerror or error}", hint="choose another with --spool"
        ) from error
    if not os.access(options.spool, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigurationError(
            f"cannot keep messages in {options.spool}: it is another user's", hint="choose another with --spool"
        )


async def _serve(
    options: AgentOptions, listeners: Sequence[socket.socket], announce: Callable[[Announcement], None]
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    bus = Bus(options.url, options.api_key, options.spool, options.source, max_bytes=options.max_bytes)
    try:
        async with asyncio.TaskGroup() as group:
            await _start(bus)
            intake = Intake(bus, options.source, options.max_bytes, group)
            server = _server(options, intake, Condition(bus, options))
            serving = group.create_task(server.serve(sockets=list(listeners)))
            await server.serves.wait()
            gc_tuning.settle()
            announce(_announcement(options, listeners))
            await stop.wait()
            _log.info("stopping: requests in flight are answered, what is not sent by then stays on disk")
            server.stop()
            await serving
        await asyncio.to_thread(intake.close)
    finally:
        await asyncio.to_thread(bus.close, DRAIN_TIMEOUT)
    if bus.pending:
        _log.info("%d messages wait in %s; the next agent or a sweeper sends them", bus.pending, options.spool)


async def _start(bus: Bus) -> None:
    """Send what earlier agents left; a disk that refuses is no reason not to serve."""
    try:
        await asyncio.to_thread(bus.start)
    except SpoolError as error:
        _log.warning("the disk takes no messages, which go straight to the receiver: %s", error)


def _server(options: AgentOptions, intake: Intake, condition: Condition) -> HttpServer:
    admission = Admission(options)
    metrics.BUILD_INFO.labels(version("pier-bus"), options.source).set(1)
    descriptors = Descriptors(most_open_files(), time.monotonic)
    callers = Callers(_SHARE, descriptors, lambda headers: admission.refusal(dict(headers)) is None)
    fields = {
        "callers": callers,
        "deadline": _RECEIVE_TIMEOUT,
        "upgrades": _NoSockets(),
        "endpoint": AgentEndpoint(intake, admission),
    }
    app = AgentApp(intake, admission, condition)
    return HttpServer(configured(callers.limited(app), HttpProtocol, fields, DRAIN_TIMEOUT, ws="none"))


class _NoSockets:
    """The policy of a server without WebSockets."""

    def refusal(self, _target: bytes, _headers: Sequence[tuple[bytes, bytes]], _peer: str) -> Problem | None:
        return _NO_SOCKET


def _announcement(options: AgentOptions, listeners: Sequence[socket.socket]) -> Announcement:
    path = str(options.socket.absolute()) if options.socket is not None else ""
    return Announcement(url_of(listeners[0]), path, str(options.spool.absolute()), options.url)
