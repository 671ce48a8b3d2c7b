"""The HTTP APIs of nsqd and nsqlookupd, as far as the transport uses them."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import httpx
import msgspec

from bus.domain.routing.answers import Answer as Lookup
from bus.domain.routing.answers import Unreadable, read_answer
from bus.domain.routing.listlookup import PATH, LookupAddresses, read_listed
from bus.domain.routing.rooms import Access
from bus.error_texts import error_text
from bus.localized_text import localized
from bus.network.http_client import bounded_client
from bus.transports.nsq.config import Address, NsqConfig
from bus.transports.nsq.errors import ConnectionLost, ErrorFrame, NotNsq, PermissionRefused

Answer = TypeVar("Answer")
_ACCEPT: Final = {"Accept": "application/vnd.nsq; version=1.0"}
MOST_BYTES: Final = 32 * 2**20  # of an answer: the figures of an nsqd with some 100,000 channels
_CUT_OFF: Final = 0.5
_DEFAULT_MESSAGE: Final = 1024 * 1024
_DEFAULT_BODY: Final = 5 * 1024 * 1024
_PARTITION: Final = re.compile(r"[0-9]{1,4}")
_GONE: Final = frozenset({"TOPIC_NOT_FOUND", "CHANNEL_NOT_FOUND"})
_THERE: Final = ("already exist", "already registered")
_WITH_META: Final = {"metainfo": "true"}


class Limits(msgspec.Struct, frozen=True):
    """Bytes that an nsqd takes in one message, and in one MPUB."""

    message: int
    body: int


class ChannelStats(msgspec.Struct, frozen=True):
    """The messages of one channel: waiting, sent and not finished, deferred.

    ``message_count`` came into it since the nsqd began; ``client_count`` consumers are there.
    """

    channel_name: str
    depth: int = 0
    in_flight_count: int = 0
    deferred_count: int = 0
    message_count: int = 0
    client_count: int = 0
    paused: bool = False


class TopicStats(msgspec.Struct, frozen=True):
    """The messages of one topic, or of one partition of it on an nsqd of the fork.

    Attributes
    ----------
    depth
        Messages that no channel has yet; bytes of the log in the fork, where channels are positions in it.
    topic_partition
        Its number; empty where topics have none.
    is_leader
        Whether this nsqd serves the partition.
    """

    topic_name: str
    depth: int = 0
    channels: list[ChannelStats] = []
    topic_partition: str = ""
    is_leader: bool = False

    @property
    def partition(self) -> int | None:
        """Return its number; None where topics have none."""
        return int(self.topic_partition) if _PARTITION.fullmatch(self.topic_partition) else None


class NodeInfo(msgspec.Struct, frozen=True):
    """How an nsqd calls itself."""

    broadcast_address: str = ""
    tcp_port: int = 0


class Peer(msgspec.Struct, frozen=True):
    """An nsqd as an nsqlookupd lists it.

    Attributes
    ----------
    tombstones
        Which of its topics are not to be read.
    distributed_id
        Only nsqds of the fork have one.
    """

    broadcast_address: str
    tcp_port: int
    http_port: int
    topics: list[str] | None = None
    tombstones: list[bool] | None = None
    distributed_id: str = ""


class _Stats(msgspec.Struct):
    topics: list[TopicStats] | None = None


class _Nodes(msgspec.Struct):
    producers: list[Peer] | None = None


class _Refusal(msgspec.Struct):
    message: str = ""
    https_port: int = 0


class NsqHttp:
    """Asks nsqds and nsqlookupds over kept connections.

    Every method raises ``ConnectionLost`` when there is no answer within ``timeout`` seconds, ``PermissionRefused`` for
    a wrong certificate, ``ErrorFrame`` with the API's own code when it refuses, and ``NotNsq`` when it makes no sense.
    """

    def __init__(self, tls: ssl.SSLContext | None, timeout: float) -> None:
        self._timeout = timeout
        self._tls = tls
        self._client = bounded_client(
            MOST_BYTES, verify=tls if tls is not None else False, timeout=timeout, trust_env=False, headers=_ACCEPT
        )
        self._encrypted: dict[Address, int] = {}
        self._requests: set[asyncio.Task[httpx.Response]] = set()

    async def close(self) -> None:
        """Close the connections."""
        if self._requests:
            await asyncio.wait(self._requests, timeout=_CUT_OFF)
        for request in self._requests:
            request.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        await self._client.aclose()

    async def nodes(self, lookupd: Address) -> list[Peer]:
        """Return the nsqds that an nsqlookupd lists."""
        return (await self._ask(lookupd, "GET", "/nodes", _Nodes)).producers or []

    async def listed(self, lookupd: Address) -> LookupAddresses:
        """Return which nsqlookupds an nsqlookupd of the fork lists; raises ``ErrorFrame`` where stock NSQ has none."""
        return _readable(read_listed, await self._send(lookupd, "GET", PATH), lookupd, PATH)

    async def lookup(self, lookupd: Address, topic: str, access: Access) -> Lookup:
        """Return where a topic is for a consumer or a producer; that it is nowhere is an answer, too."""
        # Only producers need the number of partitions, and consumers are many.
        query = {"topic": topic, "access": access.value, **(_WITH_META if access is Access.WRITE else {})}
        try:
            content = await self._send(lookupd, "GET", "/lookup", query)
        except ErrorFrame as error:
            return Lookup(refusal=error.code)
        return _readable(read_answer, content, lookupd, "/lookup")

    async def create_partitioned(self, lookupd: Address, topic: str, config: NsqConfig, *, is_ordered: bool) -> None:
        """Have the nsqlookupd that leads make a topic with partitions, unless it is there."""
        query = {
            "topic": topic,
            "partition_num": str(config.partitions),
            "replicator": str(config.replication),
            "syncdisk": str(config.syncdisk),
        }
        await self._make("/topic/create", lookupd, query | ({"orderedmulti": "true"} if is_ordered else {}))

    async def register(self, lookupd: Address, topic: str, channel: str) -> None:
        """Register a channel with the nsqlookupd that leads, for a topic that accepts no others."""
        await self._make("/channel/create", lookupd, {"topic": topic, "channel": channel})

    async def create_channel(self, nsqd: Address, topic: str, partition: int, channel: str) -> None:
        """Make a channel in a partition, on the nsqd that leads it, unless it is there."""
        query = {"topic": topic, "partition": str(partition), "channel": channel}
        await self._send(nsqd, "POST", "/channel/create", query)

    async def delete_channel(self, nsqd: Address, topic: str, partition: int, channel: str) -> None:
        """Delete a channel of a partition, on the nsqd that leads it."""
        query = {"topic": topic, "partition": str(partition), "channel": channel}
        await self._delete(nsqd, "/channel/delete", query)

    async def _make(self, path: str, peer: Address, query: dict[str, str]) -> None:
        try:
            await self._send(peer, "POST", path, query)
        except ErrorFrame as error:
            if not any(word in error.code for word in _THERE):
                raise

    async def info(self, nsqd: Address) -> NodeInfo:
        """Return how an nsqd calls itself."""
        return await self._ask(nsqd, "GET", "/info", NodeInfo)

    async def limits(self, nsqd: Address) -> Limits:
        """Return the limits of an nsqd; the defaults of nsqd for those that it does not report."""
        return Limits(
            await self._option(nsqd, "max_msg_size", _DEFAULT_MESSAGE),
            await self._option(nsqd, "max_body_size", _DEFAULT_BODY),
        )

    async def stats(self, nsqd: Address, topic: str = "") -> list[TopicStats]:
        """Return the figures of an nsqd, for one topic or for all."""
        query = {"format": "json", "include_clients": "false", "include_mem": "false", "topic": topic}
        return (await self._ask(nsqd, "GET", "/stats", _Stats, query)).topics or []

    async def create(self, nsqd: Address, topic: str, channels: Iterable[str]) -> None:
        """Make a topic and its channels unless they are there."""
        await self._send(nsqd, "POST", "/topic/create", {"topic": topic})
        for channel in channels:
            await self._send(nsqd, "POST", "/channel/create", {"topic": topic, "channel": channel})

    async def delete(self, nsqd: Address, topic: str, channel: str) -> None:
        """Delete a channel; a missing one is no error.

        The topic stays, also without channels: with it would go what another process makes and fills meanwhile.
        """
        await self._delete(nsqd, "/channel/delete", {"topic": topic, "channel": channel})

    async def forget(self, lookupd: Address, topic: str, channel: str) -> None:
        """Delete a channel from an nsqlookupd, from which nsqds take the channels of a new topic."""
        await self._delete(lookupd, "/channel/delete", {"topic": topic, "channel": channel})

    async def _delete(self, peer: Address, path: str, query: dict[str, str]) -> None:
        try:
            await self._send(peer, "POST", path, query)
        except ErrorFrame as error:
            if error.code not in _GONE:
                raise

    async def _option(self, nsqd: Address, name: str, default: int) -> int:
        try:
            return await self._ask(nsqd, "GET", f"/config/{name}", int)
        except ErrorFrame:
            return default

    async def _ask(
        self, peer: Address, method: str, path: str, form: type[Answer], query: dict[str, str] | None = None
    ) -> Answer:
        content = await self._send(peer, method, path, query)
        return _readable(lambda found: msgspec.json.decode(found, type=form), content, peer, path)

    async def _send(self, peer: Address, method: str, path: str, query: dict[str, str] | None = None) -> bytes:
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._request(method, self._url(peer, path), query)
        except (TimeoutError, httpx.TimeoutException):
            raise ConnectionLost(
                localized(
                    "http://{address} does not answer within {seconds} s",
                    address=str(peer),
                    seconds=f"{self._timeout:g}",
                )
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            self._encrypted.pop(peer, None)  # the port may be another one after a restart
            if isinstance(error.__cause__, ssl.SSLError) or "CERTIFICATE" in str(error):
                raise PermissionRefused(
                    localized("no TLS with {address}: {error}", address=str(peer), error=error_text(error, str(peer)))
                ) from error
            raise ConnectionLost(
                localized(
                    "cannot reach http://{address}: {error}", address=str(peer), error=error_text(error, str(peer))
                )
            ) from error
        if response.is_success:
            return response.content
        if response.is_server_error:
            raise ConnectionLost(
                localized(
                    "http://{address}{path} fails: HTTP {status}",
                    address=str(peer),
                    path=path,
                    status=response.status_code,
                )
            )
        refusal = _refusal(response.content)
        if refusal.https_port and peer not in self._encrypted:
            if self._tls is None:
                raise PermissionRefused(
                    localized("http://{address} demands TLS, and the settings have none", address=str(peer))
                )
            self._encrypted[peer] = refusal.https_port
            return await self._send(peer, method, path, query)
        raise ErrorFrame(refusal.message or f"HTTP {response.status_code}", f"from http://{peer}{path}")

    async def _request(self, method: str, url: str, query: dict[str, str] | None) -> httpx.Response:
        """Send a request, which gets a moment to end when its caller no longer waits for it.

        The HTTP client leaves a socket open when a request is cut off just as it has connected.
        """
        request = asyncio.create_task(self._client.request(method, url, params=query))
        self._requests.add(request)
        request.add_done_callback(self._end)
        try:
            return await asyncio.shield(request)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(_CUT_OFF, request.cancel)
            raise

    def _end(self, request: asyncio.Task[httpx.Response]) -> None:
        self._requests.discard(request)
        if not request.cancelled():
            request.exception()  # its caller may not wait for it any more

    def _url(self, peer: Address, path: str) -> str:
        port = self._encrypted.get(peer)
        return f"http://{peer}{path}" if port is None else f"https://{Address(peer.host, port)}{path}"


def _readable(read: Callable[[bytes], Answer], content: bytes, peer: Address, path: str) -> Answer:
    try:
        return read(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, Unreadable) as error:
        raise NotNsq(
            localized(
                "http://{address}{path} gave something else than NSQ does: {error}",
                address=str(peer),
                path=path,
                error=str(error),
            )
        ) from error


def _refusal(content: bytes) -> _Refusal:
    try:
        return msgspec.json.decode(content, type=_Refusal)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Refusal()
