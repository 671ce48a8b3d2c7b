"""Connections to the cluster for requests about topics, offsets and groups; records use other connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from aiokafka import errors as kafka
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.metadata import MetadataRequest

from bus.call_watch import CallHangs, CallWatch
from bus.errors import TransportError, TransportUnavailable
from bus.localized_text import localized
from bus.transports.kafka.errors import TROUBLE, transport_error

OF_GROUPS: Final = 0
OF_TRANSACTIONS: Final = 1
_BACKOFF: Final = 0.1
_CLOSE_WITHIN: Final = 2.0
_MOVED: Final = (
    kafka.GroupCoordinatorNotAvailableError,
    kafka.NotCoordinatorForGroupError,
    kafka.NodeNotReadyError,
    kafka.KafkaConnectionError,
)


class Brokers(NamedTuple):
    """The members of the cluster: each broker's id, host, port and rack, and which of them is the controller.

    The attributes are named as in the client library's answers, which learns from it.
    """

    brokers: list[tuple[int, str, int, str | None]]
    controller_id: int
    topics: tuple[()] = ()
    API_VERSION: int = 1


class _Connections:
    """The connections from one ``open`` to the next, by broker; the lock of a broker is taken while one is made."""

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}
        self._locks: dict[int, asyncio.Lock] = {}

    def lock(self, node: int) -> asyncio.Lock:
        return self._locks.setdefault(node, asyncio.Lock())

    def cut(self) -> list[asyncio.Future[Any]]:
        """Close them; the futures are done once they are closed."""
        closed = [waiting for connection in self.made.values() if (waiting := connection.close()) is not None]
        self.made.clear()
        return closed


class Cluster:
    """Sends requests to whichever broker they are for; opened again after it was lost.

    Parameters
    ----------
    options
        As ``KafkaConfig.client_options`` gives them.
    timeout
        Seconds that one request may take.
    call_watch
        Watches the requests; one of its own by default. Clusters of which each replaces another one share it.
    """

    def __init__(self, options: dict[str, Any], timeout: float, call_watch: CallWatch | None = None) -> None:
        self._bootstrap: str | list[str] = options["bootstrap_servers"]
        self._options = {name: value for name, value in options.items() if name != "bootstrap_servers"}
        self._timeout = timeout
        self._call_watch = call_watch or CallWatch(f"the connections to {self._bootstrap}")
        self._brokers: Brokers | None = None
        self._connections = _Connections()
        self._coordinators: dict[tuple[int, str], int] = {}

    @property
    def timeout(self) -> float:
        """Seconds that one request may take."""
        return self._timeout

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since; the brokers may be unreachable nevertheless."""
        return self._brokers is not None

    async def open(self) -> None:
        """Find the brokers, starting from the configured ones.

        Raises
        ------
        TransportUnavailable
            None of them answers.
        TransportRefused
            One refuses the credentials, or shows a certificate that is not trusted.
        """
        errors: list[TransportError] = []
        for host, port, _ in sorted(collect_hosts(self._bootstrap)):
            try:
                self._brokers = await self._call_watch.call(
                    self._introduction(host, port),
                    within=self._timeout,
                    client=object(),
                    cut=lambda: None,
                    kind="connecting",
                )
            except TROUBLE as error:
                errors.append(transport_error(error, localized("connecting to {host}:{port}", host=host, port=port)))
            else:
                return
        raise next((error for error in errors if not error.retriable), errors[0])

    async def close(self) -> None:
        """Close the connections; ``open`` makes new ones."""
        if closed := self._cut():
            await asyncio.wait(closed, timeout=_CLOSE_WITHIN)

    async def ask(self, request: Any) -> Any:
        """Send a request that any broker can answer, and return its answer."""
        last: Exception = kafka.NoBrokersAvailable()
        nodes = self.nodes()
        random.shuffle(nodes)
        for node in nodes:
            try:
                return await self.ask_node(node, request)
            except (kafka.KafkaError, OSError) as error:
                last = error
        raise last

    async def ask_node(self, node: int, request: Any) -> Any:
        """Send a request to one broker."""
        connections = self._connections

        used: list[Any] = []

        async def answer() -> Any:
            used.append(await self._connection(connections, node))
            return await used[0].send(request)

        try:
            return await self._call_watch.call(
                answer(),
                within=self._timeout,
                client=connections,
                cut=connections.cut,
                kind=type(request).__name__,
            )
        except CallHangs:
            if connections is self._connections:
                self._cut()  # and with them the locks, which it may have
            raise
        except TimeoutError:
            for connection in used:
                connection.close()  # the next request tries another one
            raise

    async def ask_controller(self, request: Any) -> Any:
        """Send a request to the controller, or to a broker that passes it on."""
        if self._brokers is None or self._brokers.controller_id not in self.nodes():
            return await self.ask(request)
        return await self.ask_node(self._brokers.controller_id, request)

    async def ask_coordinator(
        self, name: str, request: Any, check: Callable[[Any], None], *, kind: int = OF_GROUPS
    ) -> Any:
        """Send a request to the coordinator of a group, or of transactions; asks again while that is moving or loading.

        ``check`` raises the ``KafkaError`` that the answer contains. The caller sets the deadline.
        """
        while True:
            try:
                answer = await self.ask_node(await self._coordinator(kind, name), request)
                check(answer)
            except kafka.KafkaError as error:
                if not error.retriable:
                    raise
                if isinstance(error, _MOVED):
                    self._coordinators.pop((kind, name), None)
            else:
                return answer
            await asyncio.sleep(_BACKOFF)

    def nodes(self) -> list[int]:
        """Return the ids of the brokers that are known."""
        return [] if self._brokers is None else [node for node, *_ in self._brokers.brokers]

    def learn(self, answer: Any) -> None:
        """Take note of the brokers in an answer to a request for metadata, unless it was closed meanwhile."""
        if self._brokers is not None and answer.brokers:
            self._brokers = _brokers(answer)

    def introduce(self, client: Any) -> None:
        """Have a client of the library start from the brokers that are known here.

        Its own way to start from the configured ones leaves a connection open when it is cancelled.

        Raises
        ------
        TransportUnavailable
            None are known.
        """
        if self._brokers is None:
            raise TransportUnavailable(localized("kafka: there is no connection to the cluster"))
        brokers = self._brokers

        async def bootstrap() -> None:
            client.cluster.update_metadata(brokers)
            client._sync_task = asyncio.create_task(client._md_synchronizer())  # noqa: SLF001 - as its own would

        client.bootstrap = bootstrap

    async def _introduction(self, host: str, port: int) -> Brokers:
        """Ask a configured broker for the members of the cluster."""
        connection = await create_conn(host, port, **self._options)
        try:
            return _brokers(await connection.send(MetadataRequest([])))
        finally:
            connection.close()

    def _cut(self) -> list[asyncio.Future[Any]]:
        """Close the connections, until ``open``; the futures are done once they are closed."""
        self._brokers = None
        self._coordinators.clear()
        connections, self._connections = self._connections, _Connections()
        return connections.cut()

    async def _connection(self, connections: _Connections, node: int) -> Any:
        async with connections.lock(node):
            connection = connections.made.get(node)
            if connection is not None and connection.connected():
                return connection
            known = self._brokers
            places = {} if known is None else {id_: (host, port) for id_, host, port, _ in known.brokers}
            if node not in places:
                raise kafka.NodeNotReadyError(f"no broker {node} is known")
            connection = await create_conn(*places[node], **self._options)
            if self._brokers is None or connections is not self._connections:
                connection.close()
                raise kafka.KafkaConnectionError("the connections were closed meanwhile")
            connections.made[node] = connection
            return connection

    async def _coordinator(self, kind: int, name: str) -> int:
        if (kind, name) not in self._coordinators:
            answer = await self.ask(FindCoordinatorRequest(name, kind))
            if answer.error_code:
                raise kafka.for_code(answer.error_code)(name)
            self._coordinators[kind, name] = answer.coordinator_id
        return self._coordinators[kind, name]


def _brokers(answer: Any) -> Brokers:
    return Brokers([(node, host, port, rack) for node, host, port, rack, *_ in answer.brokers], answer.controller_id)
