"""Several processes of one bus on one port: started, started again when one dies, replaced one by one, stopped."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import msgspec

from bus.cluster.concurrency_slots import SlotFiles
from bus.error_texts import error_text
from bus.errors import ConfigurationError
from bus.files import allow_open_files
from bus.http.server import bind, url_of
from bus.serving.announcement import Announcement
from bus.serving.connection_passer import ConnectionPasser
from bus.serving.place import Place
from bus.settings import Settings
from bus.telemetry.logs import configure_logs

_log = logging.getLogger(__name__)
# Found here, since little is safe between a fork and the program.
_set_process_option: Final = getattr(ctypes.CDLL(None), "prctl", None)
_CHANNEL_BYTES: Final = 1 << 20
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
_LIVED: Final = 10.0
"""Seconds after which a process that dies was not one that cannot start."""
_AFTER_DRAIN: Final = 5.0
_STILL_BUSY: Final = 5.0
"""Seconds for which requests of a process that died count as in flight, as its subscribers may work on them."""
_ASKED_EVERY: Final = 5.0
_MISSES: Final = 4
"""So many questions in a row that a process does not answer, each for ``_ASKED_EVERY`` seconds, are its end."""
_PR_SET_PDEATHSIG: Final = 1
_QUESTION: Final = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"


def supervise(settings: Settings, announce: Callable[[Announcement], None]) -> int:
    """Run as many processes as the settings say until SIGTERM or SIGINT, then have all drain; return the exit code.

    SIGHUP replaces them one by one, with the program and the settings of then. The port is never closed meanwhile:
    connections wait for the process that comes.

    Raises
    ------
    ConfigurationError
        The port cannot be had.
    """
    configure_logs(level=settings.log_level, json=settings.log_json)
    allow_open_files()
    return asyncio.run(Supervisor(settings, announce).run())


class _Child(NamedTuple):
    process: asyncio.subprocess.Process
    ready: asyncio.Task[bytes]
    slots: Sequence[int]


class Supervisor:
    """Holds what the processes share: the port's sockets, and the channel of connections that the first one serves.

    A process that dies leaves these open, so that no connection is refused while it is started again. When this one
    dies, the system ends the processes at once, also those that are starting: what they have is durable. Where it does
    not, they notice it by a pipe.
    """

    def __init__(self, settings: Settings, announce: Callable[[Announcement], None]) -> None:
        self._settings = settings
        self._announce = announce
        count = settings.number_of_processes
        self._listeners = _listeners(settings.host, settings.port_for(["receiver"]), count)
        self._own = [bind(settings.host, 0) for _ in range(count)]
        self._served, self._passing = _channel()
        self._wakeups = [_channel() for _ in range(count)]
        self._slots = SlotFiles()
        self._leash, self._held = os.pipe()
        self._children: dict[int, _Child] = {}
        self._replaced: set[int] = set()
        self._serves = [asyncio.Event() for _ in range(count)]
        self._stopping = asyncio.Event()
        self._replacing = asyncio.Event()
        self._code = 0

    async def run(self) -> int:
        """Supervise until a signal; return 0, or the code of a first process that could not start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
        loop.add_signal_handler(signal.SIGHUP, self._replacing.set)
        async with asyncio.TaskGroup() as group:
            # The first makes what the others find: the store, the secret of the processes.
            keeping = [group.create_task(self._keep(0))]
            if await self._until_serving(0):
                keeping += [group.create_task(self._keep(number)) for number in range(1, len(self._own))]
                if all([await self._until_serving(number) for number in range(1, len(self._own))]):
                    await self._tell()
            others = [group.create_task(self._watch(number)) for number in range(len(self._own))]
            others.append(group.create_task(self._replace()))
            await self._stopping.wait()
            for task in others:
                task.cancel()
            await self._end([child.process for child in self._children.values()])
            await asyncio.wait(keeping)
        return self._code

    async def _until_serving(self, number: int) -> bool:
        """Whether a process came to serve before a stop."""
        serves = asyncio.ensure_future(self._serves[number].wait())
        stops = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait([serves, stops], return_when=asyncio.FIRST_COMPLETED)
        serves.cancel()
        stops.cancel()
        return self._serves[number].is_set()

    async def _tell(self) -> None:
        said = msgspec.json.decode(await self._children[0].ready, type=Announcement)
        said.lines.append(f"  processes {len(self._own)}, which serve this port together")
        self._announce(said)

    async def _keep(self, number: int) -> None:
        """Have a process at a place until the stop.

        Only the first start of a place may end all: later, the others serve on while this one is tried again.
        """
        loop = asyncio.get_running_loop()
        pause, has_served = _FIRST_PAUSE, False
        while not self._stopping.is_set():
            begun = loop.time()
            code = await self._live(number)
            served = self._serves[number].is_set() or number in self._replaced
            has_served |= served
            if self._stopping.is_set() or (code > 0 and not has_served):
                self._code = self._code or code
                self._stopping.set()
                return
            self._serves[number].clear()
            if not served:
                self._withdraw(number)
            if number in self._replaced:
                self._replaced.discard(number)
                continue
            _log.warning("process %d of %d ended (%d); it is started again", number, len(self._own), code)
            pause = _FIRST_PAUSE if loop.time() - begun > _LIVED else min(pause * 2, _LONGEST_PAUSE)
            await self._rest(pause)

    def _withdraw(self, number: int) -> None:
        """Have connections go to the places that serve, if any, until a process comes to listen at this one again."""
        if not any(serves.is_set() for place, serves in enumerate(self._serves) if place != number):
            return  # they wait for the first that comes
        host, port = self._listeners[number].getsockname()[:2]
        try:
            silent = bind(host, port, shares=True, listens=False)
        except ConfigurationError as error:  # no socket is to be had now
            _log.warning("connections to process %d wait for it: %s", number, error)
            return
        self._pass_waiting(self._listeners[number])
        self._listeners[number].close()
        self._listeners[number] = silent

    def _pass_waiting(self, listener: socket.socket) -> None:
        """Give the connections that wait in a socket to the first process: they would be reset with it."""
        first = ConnectionPasser(self._passing)
        for one in (listener, self._passing):  # a process may have changed that, with which it shared them
            one.setblocking(False)
        with suppress(OSError):  # there is none left
            while True:
                connection, _ = listener.accept()
                with connection:
                    if not first.pass_on(connection.fileno(), b""):
                        _log.warning("a connection to a process that does not start is closed: too many wait")

    async def _watch(self, number: int) -> None:
        """Kill a process that serves and stands still: its part of the port's connections would wait for ever."""
        misses = 0
        while await self._until_serving(number):
            process = self._children[number].process
            answers = await _answers(self._own[number])
            if process is not self._children[number].process or not self._serves[number].is_set():
                misses = 0  # another one by now, or one that drains
                continue
            misses = 0 if answers else misses + 1
            if misses == _MISSES and process.returncode is None:
                _log.error("process %d of %d stands still: killed, and started again", number, len(self._own))
                process.kill()
                misses = 0
            await self._rest(_ASKED_EVERY)

    async def _live(self, number: int) -> int:
        """Start a process and return the code with which it ended; ``EX_OSERR`` when the system starts none now."""
        try:
            child = self._children[number] = await self._start(number)
        except OSError as error:
            _log.error("process %d of %d cannot be started: %s", number, len(self._own), error_text(error))
            return os.EX_OSERR
        if self._stopping.is_set():  # it began after all were told
            await self._end([child.process])
        elif await child.ready:
            self._serves[number].set()
        code = await child.process.wait()
        asyncio.get_running_loop().call_later(_STILL_BUSY, _close, child.slots)
        return code

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _start(self, number: int) -> _Child:
        *slots, waiting = self._slots.open()
        read, write = os.pipe()
        place = Place(
            number=number,
            port=self._listeners[0].getsockname()[1],
            urls=tuple(map(url_of, self._own)),
            listener=self._listeners[number].fileno(),
            own=self._own[number].fileno(),
            passing=(self._passing if number else self._served).fileno(),
            leash=self._leash,
            ready=write,
            slots=(*slots, waiting),
            wakeups=tuple(pair[0 if to == number else 1].fileno() for to, pair in enumerate(self._wakeups)),
        )
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *sys.orig_argv[1:],
                env=place.environment(),
                pass_fds=place.descriptors,
                process_group=0,  # Ctrl-C is for this process, which tells the others
                preexec_fn=partial(_end_with, os.getpid()),
            )
        except BaseException:
            _close([read, *slots])
            raise
        finally:
            _close([write, waiting])
        return _Child(process, asyncio.create_task(_read_all(read)), slots)

    async def _replace(self) -> None:
        """Replace all processes when asked to, each once the one before serves."""
        while True:
            await self._replacing.wait()
            self._replacing.clear()
            for number in range(len(self._own)):
                if not await self._until_serving(number):
                    return
                self._replaced.add(number)
                self._serves[number].clear()
                await self._end([self._children[number].process])
                if not await self._until_serving(number):
                    return
            _log.info("all %d processes were replaced", len(self._own))

    async def _end(self, processes: Sequence[asyncio.subprocess.Process]) -> None:
        """Have processes drain, and end by force what does not."""
        for process in processes:
            if process.returncode is None:
                process.terminate()
        waiting = [asyncio.ensure_future(process.wait()) for process in processes]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._settings.drain_timeout + _AFTER_DRAIN)
            for process in processes if late else ():
                if process.returncode is None:
                    _log.warning("pid %d does not end: killed; what it was doing is done again", process.pid)
                    process.kill()


def _close(descriptors: Sequence[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _channel() -> tuple[socket.socket, socket.socket]:
    """Return an end for one process to read from, and one for the others to write to."""
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CHANNEL_BYTES)
    return reader, writer


def _end_with(supervisor: int) -> None:
    """Have the system kill this process, which was forked just now, when its supervisor ends."""
    if _set_process_option is not None:
        _set_process_option(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != supervisor:  # it has ended before
        os._exit(os.EX_OSERR)


def _listeners(host: str, port: int, count: int) -> list[socket.socket]:
    """Return sockets on one port that nobody else has.

    Raises
    ------
    ConfigurationError
        The port is in use, or cannot be had.
    """
    # By this user another bus could share the port unnoticed.
    bind(host, port).close()
    first = bind(host, port, shares=True)
    return [first, *(bind(host, first.getsockname()[1], shares=True) for _ in range(count - 1))]


async def _answers(listener: socket.socket) -> bool:
    """Whether a process answers on the socket of its own within a moment, whatever."""
    try:
        async with asyncio.timeout(_ASKED_EVERY):
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            try:
                writer.write(_QUESTION)
                return bool(await reader.read(1))
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def _read_all(descriptor: int) -> bytes:
    """Return what a process says before it closes its end, or ends."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )
    try:
        return await reader.read()
    finally:
        transport.close()
