"""nsqlookupd's HTTP API: lookups and lists of all clusters; what is not known here goes to one of them."""

from __future__ import annotations

import asyncio
import logging
from posixpath import normpath
from typing import Final, NamedTuple
from urllib.parse import parse_qs

from bus.domain.routing.listlookup import listed_alone
from bus.domain.routing.rooms import Access
from bus.http.asgi import JSON, Receive, Scope, Send, answer
from bus.ports.clock import Clock
from bus.telemetry import metrics
from lookup.cluster import Cluster, message_of
from lookup.lists import MERGED, ask_all
from lookup.lookups import FRESH, Lookups
from lookup.lru_cache import LruCache
from lookup.nsqlookupd import VIA, LookupUnavailable, StreamedAnswer, passed_by
from lookup.query import MalformedQuery, read_query
from lookup.replies import Replies, accepts_version_1, answered, missing, refused
from lookup.routing import Routing

_log = logging.getLogger(__name__)
CLUSTER: Final = "cluster"
"""Query argument, and header of the answer: the one cluster that a request is for."""
_CHOSEN: Final = b"bus-lookup-cluster"
# Of versions before 1.0, which take them by GET.
_OLD_CHANGES: Final = frozenset(
    {"/create_topic", "/delete_topic", "/create_channel", "/delete_channel", "/tombstone_topic_producer"}
)
_READING: Final = frozenset({"GET", "HEAD"})
_OK: Final = 200
_BAD_REQUEST: Final = 400
_LOOP: Final = 508
_UNAVAILABLE: Final = 503
_MOST_BODY: Final = 2**20
_MOST_LISTS: Final = 100
_MOST_FIELDS: Final = 50
_PORT_DIGITS: Final = 5
_TOO_LARGE: Final = 413


class _CachedList(NamedTuple):
    """A list that was given, of these clusters, and until when (monotonic seconds) it is given again."""

    replies: Replies
    of: tuple[Cluster, ...]
    until: float


class LookupApp:
    """Answers what ``LookupEndpoint`` does not.

    Parameters
    ----------
    me
        How this proxy is known to itself, in the header that its requests have.
    """

    def __init__(self, me: str, version: str, routing: Routing, lookups: Lookups, clock: Clock) -> None:
        self._me = me
        self._version = version
        self._routing = routing
        self._lookups = lookups
        self._clock = clock
        self._lists: LruCache[tuple[str, str], _CachedList] = LruCache(_MOST_LISTS)
        self._own = {
            "/lookup": self._lookup,
            **dict.fromkeys(MERGED, self._list),
            "/listlookup": self._listlookup,
            "/info": self._info,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path: str = scope["path"]
        own = self._own.get(path) if scope["method"] in _READING else None
        via = dict(scope["headers"]).get(VIA.encode(), b"")
        if passed_by(via, self._me):
            await self._send(scope, send, refused(_LOOP, str(_loop(self._me)), has_envelope=False))
        elif path == "/ping":
            await answer(send, _OK, b"OK", "text/plain; charset=utf-8")
        elif own is not None:
            await self._send(scope, send, await own(scope, via.decode("latin-1")))
        elif normpath(path) != (path.rstrip("/") or "/"):
            await self._send(scope, send, refused(_BAD_REQUEST, "INVALID_PATH", has_envelope=False))
        elif scope["method"] in _READING and path.rstrip("/") not in _OLD_CHANGES:
            await self._pass(scope, send)
        else:
            await self._change(scope, receive, send, via.decode("latin-1"))

    async def _lookup(self, scope: Scope, via: str) -> Replies:
        try:
            query = read_query(scope["query_string"])
        except MalformedQuery as error:
            return refused(_BAD_REQUEST, str(error), has_envelope=self._has_fork)
        metrics.LOOKUPS.labels("asked").inc()
        told: asyncio.Future[Replies] = asyncio.get_running_loop().create_future()
        self._lookups.begin(query, lambda replies: None if told.done() else told.set_result(replies), via)
        return await told

    async def _list(self, scope: Scope, via: str) -> Replies:
        """Return the merged list of all clusters; an answer is used again for a second."""
        clusters, key = tuple(self._routing.clusters.values()), (_target(scope), via)
        known = self._lists.get(key)
        if known is not None and known.of == clusters and self._clock.monotonic() < known.until:
            return known.replies
        replies = await self._ask_lists(scope, via)
        if replies.plain.status == _OK:
            self._lists.put(key, _CachedList(replies, clusters, self._clock.monotonic() + FRESH))
        return replies

    async def _ask_lists(self, scope: Scope, via: str) -> Replies:
        found = await ask_all(self._routing.clusters, scope["path"], _target(scope), via)
        fields = missing(found.absent)
        if found.content is not None:
            return answered(found.content, has_envelope=self._has_fork, fields=fields)
        if found.refusal is not None:
            return refused(found.refusal.status, message_of(found.refusal), has_envelope=self._has_fork, fields=fields)
        message = f"no nsqlookupd of {', '.join(found.absent)} gives a list that can be read"
        return refused(_UNAVAILABLE, message, has_envelope=self._has_fork, fields=fields)

    async def _listlookup(self, scope: Scope, _: str) -> Replies:
        host, port = _reached_at(scope)
        return answered(listed_alone(host, port), has_envelope=self._has_fork)

    async def _info(self, _scope: Scope, _: str) -> Replies:
        return answered({"version": self._version}, has_envelope=self._has_fork)

    async def _change(self, scope: Scope, receive: Receive, send: Send, via: str) -> None:
        """Have one cluster make a change: the one that is named, or the one that the topic is produced to."""
        cluster = self._chosen(scope)
        if cluster is None:
            await self._send(scope, send, self._undecided(scope))
            return
        body = await _body(receive)
        if body is None:
            await self._send(scope, send, refused(_TOO_LARGE, "BODY_TOO_BIG", has_envelope=self._has_fork))
            return
        try:
            done = await cluster.change(scope["method"], _target(scope), via, body)
        except LookupUnavailable as error:
            await self._send(scope, send, refused(_UNAVAILABLE, str(error), has_envelope=self._has_fork))
            return
        _log.info("cluster %s answers %s %s: %d", cluster.name, scope["method"], scope["path"], done.status)
        self._lists.clear()
        await answer(send, done.status, done.content, JSON, (_CHOSEN, cluster.name.encode("ascii", "replace")))

    async def _pass(self, scope: Scope, send: Send) -> None:
        """Pass a question on as it is, to the cluster that is named, that its topic is produced to, or the first."""
        clusters = self._routing.clusters
        cluster = self._chosen(scope)
        if cluster is None and CLUSTER in _arguments(scope):
            await self._send(scope, send, self._undecided(scope))
            return
        cluster = cluster or next(iter(clusters.values()))
        headers = dict(scope["headers"])
        try:
            async with cluster.passing(scope["method"], _target(scope), headers) as passed:
                await _stream(send, passed)
        except LookupUnavailable as error:
            await self._send(scope, send, refused(_UNAVAILABLE, str(error), has_envelope=self._has_fork))

    def _chosen(self, scope: Scope) -> Cluster | None:
        arguments = _arguments(scope)
        if CLUSTER in arguments:
            return self._routing.clusters.get(arguments[CLUSTER])
        route = self._routing.route(arguments["topic"]) if "topic" in arguments else None
        names = route.clusters(Access.WRITE) if route is not None else ()
        if not names and len(self._routing.clusters) == 1:
            names = tuple(self._routing.clusters)
        return self._routing.clusters.get(names[0]) if names else None

    def _undecided(self, scope: Scope) -> Replies:
        names = ", ".join(self._routing.clusters)
        known = f"name the cluster that is to do {scope['path'][:100]}: {CLUSTER}=NAME of {names}"
        return refused(_BAD_REQUEST, known, has_envelope=self._has_fork)

    @property
    def _has_fork(self) -> bool:
        return any(cluster.is_fork for cluster in self._routing.clusters.values())

    async def _send(self, scope: Scope, send: Send, replies: Replies) -> None:
        status, body, fields = replies.form(is_plain=accepts_version_1(scope["headers"]))
        await answer(send, status, body, JSON, *fields)


async def _stream(send: Send, passed: StreamedAnswer) -> None:
    await send({"type": "http.response.start", "status": passed.status, "headers": list(passed.headers)})
    try:
        async for piece in passed.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except LookupUnavailable as error:
        # The head is sent: the client must see that this is not all.
        raise ConnectionError(f"an answer that was passed on was cut off: {error}") from error
    await send({"type": "http.response.body", "body": b""})


async def _body(receive: Receive) -> bytes | None:
    """Return a small body; None for one that is cut off, or too large."""
    gathered = bytearray()
    while True:
        event = await receive()
        gathered += event.get("body", b"")
        if event["type"] != "http.request" or len(gathered) > _MOST_BODY:
            return None
        if not event.get("more_body"):
            return bytes(gathered)


def _target(scope: Scope) -> str:
    """Return path and query as they came, without the argument that is for this proxy."""
    path: str = scope["raw_path"].decode("latin-1").partition("?")[0]
    query: bytes = scope["query_string"]
    kept = [part for part in query.decode("latin-1").split("&") if part and not part.startswith(f"{CLUSTER}=")]
    return f"{path}?{'&'.join(kept)}" if kept else path


def _arguments(scope: Scope) -> dict[str, str]:
    try:
        found = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items()}


def _reached_at(scope: Scope) -> tuple[str, int]:
    """Return the host and port at which the client reached this proxy."""
    named = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
    host, _, port = named.rpartition(":")
    if host and len(port) <= _PORT_DIGITS and port.isdecimal():
        return host.strip("[]"), int(port)
    server = scope.get("server") or ("127.0.0.1", 0)
    return named or str(server[0]), int(server[1] or 0)


def _loop(me: str) -> str:
    return f"this lookup proxy ({me}) is asked by itself: lookupSchema names its own address as an nsqlookupd"
