"""Runs roles in one process behind one HTTP server, and stops them in order."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
import uvicorn
import uvloop
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from bus.bootstrap import Asgi, Context, Service, load_roles, open_context
from bus.domain.problem import Problem, failure, problem
from bus.errors import BusError, ConfigurationError
from bus.http_protocol import HttpProtocol, Refusal
from bus.ports.spool import Spool
from bus.ports.transport import Transport
from bus.settings import Settings
from bus.telemetry import metrics
from bus.telemetry.logs import configure_logs

_log = logging.getLogger(__name__)
_SERVED_BY: Final = {"/v1/messages": "receiver", "/api/v1": "admin"}
_KEEP_ALIVE: Final = 75
_BACKLOG: Final = 2048
# A COMMIT's thread waits at most this long for the interpreter while the event loop is busy.
_SWITCH_INTERVAL: Final = 0.001
_GC_THRESHOLDS: Final = (50_000, 20, 50)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Announcement(NamedTuple):
    """Where a process serves: for programs, and in ``lines`` for people; ``open`` while no key was made."""

    url: str
    roles: Sequence[str]
    data: str
    open: bool
    lines: list[str]


def serve(settings: Settings, roles: Sequence[str], announce: Callable[[Announcement], None]) -> int:
    """Run roles until SIGTERM or SIGINT, then drain; return the process's exit code.

    ``announce`` is called once everything serves.

    Raises
    ------
    BusError
        The start is not possible; nothing was changed.
    """
    configure_logs(level=settings.log_level, json=settings.log_json)
    sys.setswitchinterval(_SWITCH_INTERVAL)
    _allow_files()
    listener = _bind(settings.host, settings.port_for(roles))
    try:
        uvloop.run(_serve(settings, roles, listener, announce))
    except* BusError as group:
        raise _first(group) from None
    finally:
        listener.close()
    return 0


async def _serve(
    settings: Settings, roles: Sequence[str], listener: socket.socket, announce: Callable[[Announcement], None]
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with open_context(settings, roles, _url(listener)) as context:
        _refuse_open(settings, context)
        services = [role(context) for role in load_roles(roles)]
        _watch_spools(context)
        async with asyncio.TaskGroup() as group:
            running = [await _start(group, service) for service in services]
            server = _Server(_config(settings, Gateway(context, services)))
            serving = group.create_task(server.serve(sockets=[listener]))
            await server.serves.wait()
            following = [
                group.create_task(follow(context.clock)) for follow in (context.keyring.follow, context.registry.follow)
            ]
            _settle_memory()
            announce(_announcement(settings, roles, listener, context))
            await stop.wait()
            _log.info("stopping: requests in flight are finished, what waits stays on disk")
            server.should_exit = True
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


class Gateway:
    """Sends each request to the application of its path; health and metrics are answered here."""

    def __init__(self, context: Context, services: Sequence[Service]) -> None:
        self._context = context
        self._routes = {prefix: app for service in services for prefix, app in service.routes().items()}
        self._own = {"/healthz": self._healthz, "/readyz": self._readyz, "/metrics": self._metrics}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; what goes wrong inside is logged, and answered unless an answer has begun."""
        if scope["type"] != "http":
            return
        try:
            await self._application(scope)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - whatever it is, the peer gets an answer
            try:
                await Refusal(failure())(scope, receive, send)
            except Exception:  # noqa: BLE001 - the server's own, since an answer has begun; it logs ours and closes
                raise error from None
            _log.error("%s %s failed", scope["method"], scope["path"][:200], exc_info=error)

    def _application(self, scope: Scope) -> Asgi:
        """Return what answers a request."""
        path: str = scope["path"]
        if path != "/healthz" and not self._is_for_us(scope):
            return Refusal(problem(403, "without keys the bus answers on loopback names only", hint="bus key create"))
        for prefix, app in self._routes.items():
            if path == prefix or path.startswith(f"{prefix}/"):
                return app
        own = self._own.get(path)
        if own is None:
            return Refusal(_nothing_at(path))
        if scope["method"] not in ("GET", "HEAD"):
            return Refusal(problem(405, f"{path} takes GET"), (b"allow", b"GET, HEAD"))
        return own

    def _is_for_us(self, scope: Scope) -> bool:
        """Whether the Host is ours; while the bus is open another one may be a page that rebinds its name."""
        keyring = self._context.keyring
        return not keyring.is_open or keyring.is_local(dict(scope["headers"]).get(b"host"))

    async def _healthz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await _send(send, 200, "application/json", b'{"status": "ok"}')

    async def _readyz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await _send(send, 200, "application/json", msgspec.json.encode(self._context.health()))

    async def _metrics(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        for gauge in metrics.SAMPLED:
            gauge.clear()
        for meter in self._context.meters:
            meter()
        for transport in self._context.roads.transports:
            _measure_broker(transport)
        for check in self._context.health()["checks"]:
            metrics.DEGRADED.labels(check["name"]).set(not check["ok"])
            if check["name"] == "store":
                metrics.STORE_UP.set(check["ok"])
        for async_meter in self._context.async_meters:
            await async_meter()
        await _send(send, 200, CONTENT_TYPE_LATEST, generate_latest(metrics.REGISTRY))


def _nothing_at(path: str) -> Problem:
    for prefix, role in _SERVED_BY.items():
        if path == prefix or path.startswith(f"{prefix}/"):
            return problem(
                404, f"this process is no {role}: {path[:200]} is answered by one", hint="see bus run --help"
            )
    return problem(404, f"there is nothing at {path[:200]}", hint="see /openapi.json")


async def _send(send: Send, status: int, content_type: str, body: bytes) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Server(uvicorn.Server):
    """uvicorn without signal handlers of its own: the roles stop in order. ``serves`` is set once it answers."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serves = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, and tell who waits for it."""
        await super().startup(sockets)
        self.serves.set()


def _config(settings: Settings, app: Asgi) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http=type("TimedProtocol", (HttpProtocol,), {"deadline": settings.receive_timeout}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=round(settings.drain_timeout),
    )


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        reason = "in use" if error.errno == errno.EADDRINUSE else (error.strerror or str(error))
        raise ConfigurationError(
            f"cannot listen on {host}:{port}: {reason}", hint="choose another with --port"
        ) from error
    listener.setblocking(False)
    return listener


def _refuse_open(settings: Settings, context: Context) -> None:
    if context.keyring.is_open and not settings.is_loopback:
        raise ConfigurationError(
            f"binding to {settings.host} needs a key or a user first",
            hint=f"bus key create --role admin --data {settings.data}",
        )


def _watch_spools(context: Context) -> None:
    for name, spool in context.spools.items():
        context.meters.append(partial(_measure, context, name, spool))
        context.conditions[f"spool {name}"] = partial(_spool_trouble, spool)


def _measure(context: Context, name: str, spool: Spool) -> None:
    stats = spool.stats()
    metrics.SPOOL_BYTES.labels(name).set(stats.bytes)
    metrics.SPOOL_DAMAGED.labels(name).set(stats.damaged)
    waiting: dict[str, tuple[int, int | None]] = {}
    for found in stats.consumers:
        label = f"{found.lane}/{found.consumer}" if name == "direct" else found.consumer
        count, oldest = waiting.get(label, (0, None))
        times = [time for time in (oldest, found.oldest) if time is not None]
        waiting[label] = (count + found.records, min(times, default=None))
        if name == "direct":
            metrics.BACKLOG.labels(found.lane, found.consumer, "direct", "").set(found.records)
    now = context.clock.now()
    for label, (count, oldest) in waiting.items():
        metrics.SPOOL_RECORDS.labels(name, label).set(count)
        metrics.SPOOL_OLDEST.labels(name, label).set((now - oldest) / 1000 if oldest is not None else 0)


def _measure_broker(transport: Transport) -> None:
    clusters = transport.conditions()
    for cluster, trouble in clusters.items():
        metrics.BROKER_UP.labels(cluster).set(not trouble)
    if clusters:
        for (code, name), lag in (transport.lags() or {}).items():
            metrics.BACKLOG.labels(code, name, transport.name, "").set(lag.records)


def _spool_trouble(spool: Spool) -> str:
    stats = spool.stats()
    if stats.bytes >= stats.limit:
        return "full: new messages are refused, nothing stored is lost"
    if stats.damaged:
        return f"{stats.damaged} damaged records were set aside"
    return ""


def _announcement(settings: Settings, roles: Sequence[str], listener: socket.socket, context: Context) -> Announcement:
    url = _url(listener)
    lines = [f"Pier serves on {url}" if len(roles) > 1 else f"Pier's {roles[0]} serves on {url}"]
    lines += [f"  messages  {url}/v1/messages/DESTINATION"] if "receiver" in roles else []
    lines += [f"  admin     {url}/api/v1"] if "admin" in roles else []
    data = str(settings.data.absolute())
    lines.append(f"  data      {data}")
    if context.keyring.is_open:
        lines.append("  open      no key was made yet: whoever reaches this machine's loopback may do everything")
    if settings.is_loopback:
        lines.append("  egress    subscriber URLs on loopback are allowed, since this address is loopback")
    return Announcement(url, tuple(roles), data, context.keyring.is_open, lines)


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _allow_files() -> None:
    """Allow as many open files as the system lets a process have: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _settle_memory() -> None:
    """Keep the collector away from what lives as long as the process, and let it look less often."""
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
