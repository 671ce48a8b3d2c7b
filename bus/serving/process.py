"""Runs roles in one process behind one HTTP server, and stops them in order."""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bus import gc_tuning
from bus.bootstrap import (
    ROLES,
    Context,
    Role,
    RoleServices,
    Service,
    SharedResources,
    compose,
    introspect,
    load_roles,
    offers_of,
    open_context,
)
from bus.errors import BusError
from bus.files import allow_open_files
from bus.http.asgi import Field
from bus.http.server import bind, url_of
from bus.network import event_loop
from bus.observing.disks import watch_of
from bus.security.callers import Callers, Share
from bus.security.clients import networks_of
from bus.serving.announcement import Announcement, announcement
from bus.serving.gateway import Gateway
from bus.serving.gauges import spool_offers
from bus.serving.late_stop import tell_when_late
from bus.serving.place import Place, left_behind
from bus.serving.server import Server, SharedPort, config
from bus.serving.watchdog import Watchdog
from bus.settings import Settings
from bus.telemetry import metrics
from bus.telemetry.logs import configure_logs

_log = logging.getLogger(__name__)
# A COMMIT's thread waits at most this long for the interpreter while the event loop is busy.
_SWITCH_INTERVAL: Final = 0.001
_AFTER_DRAIN: Final = 5.0  # seconds for all else that a stop does
_DELIVERING: Final = frozenset({"compensator", "dispatcher"})


def serve(
    settings: Settings, roles: Sequence[str], announce: Callable[[Announcement], None], place: Place | None = None
) -> int:
    """Run roles until SIGTERM or SIGINT, then drain; return the process's exit code.

    ``announce`` is called once everything serves; ``place`` is that among several processes of one port.

    Raises
    ------
    BusError
        The start is not possible; nothing was changed.
    """
    wanted = load_roles(roles)
    configure_logs(level=settings.log_level, json=settings.log_json)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    allow_open_files()
    door = _door(settings, roles, place)
    try:
        event_loop.run(_serve(settings, roles, wanted, door, announce))
    except BaseExceptionGroup as group:  # what `except*` raises stays in a group before Python 3.11.4
        errors, others = group.split(BusError)
        if errors is None or others is not None:
            raise
        raise _first(errors) from None
    finally:
        for listener in door.listeners:
            listener.close()
    return 0


class _ProcessAddress(NamedTuple):
    """Where a process is reached: on the last listener by the other processes, on the first by everybody.

    One of several that share a port has the ``channel`` of connections that the first of them serves, and the
    ``wakeups`` of all; its ``place`` names what else they share.
    """

    listeners: list[socket.socket]
    place: Place | None = None
    channel: socket.socket | None = None
    wakeups: Sequence[socket.socket] = ()

    @property
    def is_first(self) -> bool:
        return self.place is None or self.place.is_first

    def common(self, data: Path) -> SharedResources | None:
        """Return what the processes of the port have together."""
        if self.place is None:
            return None
        return SharedResources(self.place.common(data), self.place.number, self.place.slots, self.wakeups)

    @property
    def siblings(self) -> Sequence[str]:
        return self.place.siblings if self.place is not None and self.place.is_first else ()

    @property
    def shared(self) -> SharedPort | None:
        if self.channel is None or self.is_first:
            return None
        from bus.serving.connection_passer import ConnectionPasser  # noqa: PLC0415 - of several processes only

        return SharedPort(self.listeners[0].getsockname()[1], ConnectionPasser(self.channel))


def _door(settings: Settings, roles: Sequence[str], place: Place | None) -> _ProcessAddress:
    if place is None:
        return _ProcessAddress([bind(settings.host, settings.port_for(roles))])
    descriptors = (place.listener, place.own, place.passing, *place.wakeups)
    listener, own, channel, *wakeups = [socket.socket(fileno=number) for number in descriptors]
    for one in (listener, own, channel, *wakeups):
        one.setblocking(False)
    return _ProcessAddress([listener, own], place, channel, wakeups)


async def _serve(
    settings: Settings,
    roles: Sequence[str],
    wanted: Sequence[Role],
    door: _ProcessAddress,
    announce: Callable[[Announcement], None],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    left: list[Path] = []
    if door.place is not None:
        loop.add_reader(door.place.leash, os._exit, 1)
    if door.is_first and set(roles) == set(ROLES):
        left = left_behind(settings.data, len(door.place.urls) if door.place is not None else 1)
    url = url_of(door.listeners[-1])
    async with open_context(settings, roles, url, left, door.common(settings.data)) as context:
        disks = watch_of(context)
        services, offers = compose(context, wanted, offers_of(context) | spool_offers(context) | disks.offers)
        introspection = introspect(context, offers)
        async with asyncio.TaskGroup() as group:
            running = [await _start(group, service) for service in services]
            server = Server(
                config(
                    settings,
                    Gateway(context, introspection, door.siblings),
                    _callers(context, offers),
                    offers.endpoint,
                    door.shared,
                    has_pages="admin" in roles,
                )
            )
            gc_tuning.settle()
            serving = group.create_task(server.serve(sockets=door.listeners))
            await server.serves.wait()
            following = [group.create_task(work) for work in (context.keyring.follow(context.clock), disks.run())]
            if door.channel is not None and door.is_first:
                from bus.serving.connection_passer import take_passed  # noqa: PLC0415 - of several processes only

                following.append(group.create_task(take_passed(door.channel, server.adopt)))
            announce(announcement(settings, roles, url_of(door.listeners[0]), context))
            with Watchdog(metrics.LOOP_STALLS.observe):
                await stop.wait()
            _log.info("stopping: requests in flight are finished, what waits stays on disk")
            tell_when_late(settings.drain_timeout + _AFTER_DRAIN)
            for task in following:
                task.cancel()
            if door.place is not None:
                # What comes meanwhile to this process's part of the port is served on, and does not wait for slow
                # subscribers and the next process.
                for role, run in zip(reversed(roles), reversed(running), strict=False):
                    if role in _DELIVERING:
                        await _finish(run, settings.drain_timeout)
            server.stop()
            await serving
            for run in reversed(running):
                await _finish(run, settings.drain_timeout)


def _callers(context: Context, offers: RoleServices) -> Callers:
    settings, keyring, peer_key = context.settings, context.keyring, context.peer_key
    scraper = f"Bearer {settings.metrics_key}".encode() if settings.metrics_key else b""

    def opens(shown: bytes) -> bool:
        return keyring.knows(shown) or peer_key.opens(shown) or (scraper != b"" and hmac.compare_digest(shown, scraper))

    def knows(headers: Sequence[Field]) -> bool:
        if keyring.is_open or any(name == b"authorization" and opens(value) for name, value in headers):
            return True
        return any(has(headers) for has in offers.credentials)

    share = Share(settings.keyless_requests, settings.keyless_connections)
    return Callers(share, context.descriptors, knows, networks_of(settings.trusted_proxies))


class _RunningRole(NamedTuple):
    task: asyncio.Task[None]
    stopping: asyncio.Event


async def _start(group: asyncio.TaskGroup, service: Service) -> _RunningRole:
    ready, stopping = asyncio.Event(), asyncio.Event()
    task = group.create_task(service.run(ready, stopping))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return _RunningRole(task, stopping)


async def _finish(run: _RunningRole, timeout: float) -> None:  # noqa: ASYNC109 - then it is cancelled
    run.stopping.set()
    done, _ = await asyncio.wait([run.task], timeout=timeout)
    if not done:
        _log.warning("requests still in flight after %g s are given up; they are delivered again", timeout)
        run.task.cancel()


def _first(group: BaseExceptionGroup[BusError]) -> BusError:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    if not isinstance(found, BusError):
        raise found
    return found
