"""Asks the management plugin a few questions, each for a few columns of a page.

The plugin counts on request, and a node that has many queues has run out of memory over it. So nothing is asked
whose answer needs the counters of queues, and what is read of an answer is bounded.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import httpx
import msgspec

from bus.domain.health.vitals import BrokerFigures, NodeFigures
from bus.error_texts import error_text
from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.localized_text import localized
from bus.network.http_client import bounded_client
from bus.transports.rabbitmq.management.config import ManagementUrl

PAGE: Final = 500
"""Queues of one answer."""
MOST_PAGES: Final = 4
MOST_BYTES: Final = 512 * 1024
"""Of one answer."""
_MOST_NODES: Final = 32
_WITHIN: Final = 10.0
_DENIED: Final = frozenset({401, 403})
_IN_FLOW: Final = frozenset({"flow", "blocking", "blocked"})
_NODES: Final = (
    "name,running,partitions,mem_used,mem_limit,mem_alarm,disk_free,disk_free_limit,disk_free_alarm"  # all but counters
)
# By name, those that are held up come before those that run: what is left out are those that run.
_CONNECTIONS: Final = {"columns": "state", "sort": "state", "page": 1, "page_size": 100}
_QUEUES: Final = {
    "columns": "messages_ready,messages_unacknowledged",
    "name": "^pier[/-]",
    "use_regex": "true",
    "disable_stats": "true",
    "enable_queue_totals": "true",
    "page_size": PAGE,
}


class _Node(msgspec.Struct):
    name: str
    running: bool = False
    partitions: list[str] = []
    mem_used: int = 0
    mem_limit: int = 0
    mem_alarm: bool = False
    disk_free: int | str = 0
    disk_free_limit: int | str = 0
    disk_free_alarm: bool = False


class _Connection(msgspec.Struct):
    state: str = ""


class _Connections(msgspec.Struct):
    items: list[_Connection]
    total_count: int = 0


class _Queue(msgspec.Struct):
    messages_ready: int = 0
    messages_unacknowledged: int = 0


class _Queues(msgspec.Struct):
    items: list[_Queue]
    filtered_count: int = 0
    page_count: int = 1


Answer = TypeVar("Answer")


class Management:
    """Asks whichever host of a cluster answers.

    Parameters
    ----------
    cluster
        Its name.

    Raises
    ------
    ConfigurationError
        A file for TLS cannot be read.
    """

    def __init__(self, cluster: str, url: ManagementUrl) -> None:
        self._cluster = cluster
        self._url = url
        self._last = url.bases[0]
        self._client: httpx.AsyncClient | None = None

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self._cluster

    async def look(self) -> BrokerFigures:
        """Return the state of the cluster; raises ``TransportError`` with the last host's error."""
        trouble: TransportError | None = None
        for base in sorted(self._url.bases, key=self._last.__ne__):
            try:
                async with asyncio.timeout(_WITHIN):
                    found = await self._ask_all(base)
            except TransportError as error:
                trouble = error
            except TimeoutError:
                trouble = TransportUnavailable(
                    localized("{url} does not answer within {seconds} s", url=base, seconds=f"{_WITHIN:g}")
                )
            else:
                self._last = base
                return found
        raise trouble or TransportUnavailable(localized("{name}: closed", name=self._cluster))

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask_all(self, base: str) -> BrokerFigures:
        nodes = await self._ask(f"{base}/api/nodes", {"columns": _NODES}, list[_Node])
        connections = await self._ask(f"{base}/api/connections", _CONNECTIONS, _Connections)
        queues, of = await self._queues(f"{base}/api/queues/{quote(self._url.vhost, safe='')}")
        return BrokerFigures(
            cluster=self._cluster,
            nodes=tuple(_figures(node) for node in nodes[:_MOST_NODES]),
            connections=connections.total_count,
            in_flow=sum(one.state in _IN_FLOW for one in connections.items),
            queues=of,
            ready=sum(one.messages_ready for one in queues),
            unacked=sum(one.messages_unacknowledged for one in queues),
        )

    async def _queues(self, url: str) -> tuple[list[_Queue], int]:
        """Return the queues of the bus, the first of them where there are very many, and how many there are."""
        found: list[_Queue] = []
        for page in range(1, MOST_PAGES + 1):
            answer = await self._ask(url, {**_QUEUES, "page": page}, _Queues)
            found += answer.items
            if page >= answer.page_count:
                break
        return found, answer.filtered_count

    async def _ask(self, url: str, query: Mapping[str, object], kind: type[Answer]) -> Answer:
        try:
            content = await self._read(f"{url}?{urlencode(query)}")
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError) as error:
            raise TransportUnavailable(
                localized("{url} does not answer: {error}", url=url, error=error_text(error))
            ) from error
        try:
            return msgspec.json.decode(content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TransportRefused(
                localized("unexpected response from {url}: {error}", url=url, error=str(error))
            ) from error

    async def _read(self, url: str) -> bytes:
        """Return an answer's body, which is bounded; raises ``TransportRefused`` for a status that is not 200."""
        if self._client is None:
            login, verify = (self._url.user, self._url.password), await asyncio.to_thread(self._tls)
            self._client = bounded_client(MOST_BYTES, auth=login, verify=verify, trust_env=False)
        where = url.partition("?")[0]
        answer = await self._client.get(url)
        if answer.status_code in _DENIED:
            raise TransportRefused(
                localized("{url} refuses user {user}", url=where, user=self._url.user),
                hint=localized("give it the tag monitoring: docs/rabbitmq.md"),
            )
        if not answer.is_success:
            raise TransportUnavailable(localized("{url} answers {status}", url=where, status=answer.status_code))
        return answer.content

    def _tls(self) -> ssl.SSLContext | bool:
        """Return how certificates are checked: as the URL of the cluster says."""
        options = self._url.options
        if not self._last.startswith("https:"):
            return False
        if options.get("no_verify_ssl", "0") != "0":
            return False
        context = ssl.create_default_context(cafile=options.get("cafile"), capath=options.get("capath"))
        if "certfile" in options:
            context.load_cert_chain(options["certfile"], options.get("keyfile"))
        return context


def _figures(node: _Node) -> NodeFigures:
    return NodeFigures(
        name=node.name,
        is_running=node.running,
        partitions=tuple(node.partitions[:_MOST_NODES]),
        memory_alarm=node.mem_alarm,
        disk_alarm=node.disk_free_alarm,
        memory=node.mem_used,
        memory_limit=node.mem_limit,
        disk_free=_bytes(node.disk_free),
        disk_limit=_bytes(node.disk_free_limit),
    )


def _bytes(told: int | str) -> int:
    """Return a figure; 0 where the node says in words that it has none."""
    return told if isinstance(told, int) else 0
