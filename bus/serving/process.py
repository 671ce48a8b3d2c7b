"""Runs roles in one process behind one HTTP server, and stops them in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import uvloop

from bus.bootstrap import Role, Service, compose, introspect, load_roles, offers_of, open_context
from bus.errors import BusError
from bus.serving.announcement import Announcement, announcement
from bus.serving.gateway import Gateway
from bus.serving.gauges import spool_offers
from bus.serving.server import Server, bind, config, url_of
from bus.settings import Settings
from bus.telemetry.logs import configure_logs

_log = logging.getLogger(__name__)
# A COMMIT's thread waits at most this long for the interpreter while the event loop is busy.
_SWITCH_INTERVAL: Final = 0.001
_GC_THRESHOLDS: Final = (50_000, 20, 50)


def serve(settings: Settings, roles: Sequence[str], announce: Callable[[Announcement], None]) -> int:
    """Run roles until SIGTERM or SIGINT, then drain; return the process's exit code.

    ``announce`` is called once everything serves.

    Raises
    ------
    BusError
        The start is not possible; nothing was changed.
    """
    wanted = load_roles(roles)
    configure_logs(level=settings.log_level, json=settings.log_json)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    _allow_files()
    listener = bind(settings.host, settings.port_for(roles))
    try:
        uvloop.run(_serve(settings, roles, wanted, listener, announce))
    except* BusError as group:
        raise _first(group) from None
    finally:
        listener.close()
    return 0


async def _serve(
    settings: Settings,
    roles: Sequence[str],
    wanted: Sequence[Role],
    listener: socket.socket,
    announce: Callable[[Announcement], None],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with open_context(settings, roles, url_of(listener)) as context:
        services, offers = compose(context, wanted, offers_of(context) | spool_offers(context))
        introspection = introspect(context, offers)
        async with asyncio.TaskGroup() as group:
            running = [await _start(group, service) for service in services]
            server = Server(
                config(settings, Gateway(context, introspection), offers.endpoint, has_pages="admin" in roles)
            )
            serving = group.create_task(server.serve(sockets=[listener]))
            await server.serves.wait()
            following = [
                group.create_task(follow(context.clock)) for follow in (context.keyring.follow, context.registry.follow)
            ]
            _settle_memory()
            announce(announcement(settings, roles, url_of(listener), context))
            await stop.wait()
            _log.info("stopping: requests in flight are finished, what waits stays on disk")
            server.stop()
            await serving
            for task in following:
                task.cancel()
            for run in reversed(running):
                await _finish(run, settings.drain_timeout)


class _Running(NamedTuple):
    task: asyncio.Task[None]
    stopping: asyncio.Event


async def _start(group: asyncio.TaskGroup, service: Service) -> _Running:
    ready, stopping = asyncio.Event(), asyncio.Event()
    task = group.create_task(service.run(ready, stopping))
    waiting = asyncio.ensure_future(ready.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    return _Running(task, stopping)


async def _finish(run: _Running, timeout: float) -> None:  # noqa: ASYNC109 - then it is cancelled
    run.stopping.set()
    done, _ = await asyncio.wait([run.task], timeout=timeout)
    if not done:
        _log.warning("requests still in flight after %g s are given up; they are delivered again", timeout)
        run.task.cancel()


def _allow_files() -> None:
    """Allow as many open files as the system lets a process have: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _settle_memory() -> None:
    """Exclude what lives as long as the process from garbage collection, and make collections rarer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _first(group: BaseExceptionGroup[BusError]) -> BusError:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    if not isinstance(found, BusError):
        raise found
    return found
