"""A connection to the cluster for questions and orders: topics, offsets, groups. Records travel elsewhere."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from aiokafka import errors as kafka
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import collect_hosts, create_conn
from aiokafka.protocol.coordination import FindCoordinatorRequest

from bus.errors import TransportUnavailable
from bus.transports.kafka.errors import TROUBLE, transport_error

_GROUP: Final = 0
_BACKOFF: Final = 0.1
_CLOSE_WITHIN: Final = 2.0
_MOVED: Final = (
    kafka.GroupCoordinatorNotAvailableError,
    kafka.NotCoordinatorForGroupError,
    kafka.NodeNotReadyError,
    kafka.KafkaConnectionError,
)


class Cluster:
    """Sends requests to whichever broker they are for; opened again after it was lost.

    Parameters
    ----------
    options
        As ``KafkaConfig.client_options`` gives them.
    timeout
        Seconds that one request may take.
    """

    def __init__(self, options: dict[str, Any], timeout: float) -> None:
        self._options = options
        self._timeout = timeout
        self._client: Any = None
        self._coordinators: dict[str, int] = {}

    @property
    def timeout(self) -> float:
        """Seconds that one request may take."""
        return self._timeout

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since; the brokers may be away nevertheless."""
        return self._client is not None

    async def open(self) -> None:
        """Find the brokers, starting from the configured ones.

        Raises
        ------
        TransportUnavailable
            None of them answers.
        TransportRefused
            One refuses the credentials, or shows a certificate that is not trusted.
        """
        client = AIOKafkaClient(**self._options)
        try:
            async with asyncio.timeout(self._timeout):
                await client.bootstrap()
        except TROUBLE as error:
            await _close(client)
            raise await self._diagnosis(error) from error
        except BaseException:
            await _close(client)
            raise
        self._client = client

    async def close(self) -> None:
        """Close the connections; ``open`` makes new ones."""
        client, self._client = self._client, None
        self._coordinators.clear()
        if client is not None:
            await _close(client)

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
        if self._client is None:
            raise TransportUnavailable("kafka: there is no connection to the cluster")
        async with asyncio.timeout(self._timeout):
            return await self._client.send(node, request)

    async def ask_controller(self, request: Any) -> Any:
        """Send a request to the controller, or to a broker that passes it on."""
        controller = None if self._client is None else self._client.cluster.controller
        return await (self.ask(request) if controller is None else self.ask_node(controller.nodeId, request))

    async def ask_coordinator(self, group: str, request: Any, check: Callable[[Any], None]) -> Any:
        """Send a request to a group's coordinator; asks again while the group is moving or loading.

        ``check`` raises the ``KafkaError`` that the answer contains. The caller sets the deadline.
        """
        while True:
            try:
                answer = await self.ask_node(await self._coordinator(group), request)
                check(answer)
            except kafka.KafkaError as error:
                if not error.retriable:
                    raise
                if isinstance(error, _MOVED):
                    self._coordinators.pop(group, None)
            else:
                return answer
            await asyncio.sleep(_BACKOFF)

    def nodes(self) -> list[int]:
        """Return the ids of the brokers that are known."""
        return [] if self._client is None else [broker.nodeId for broker in self._client.cluster.brokers()]

    def learn(self, metadata: Any) -> None:
        """Take note of the brokers in an answer to a request for metadata."""
        if self._client is not None:
            self._client.cluster.update_metadata(metadata)

    async def _coordinator(self, group: str) -> int:
        if group not in self._coordinators:
            answer = await self.ask(FindCoordinatorRequest(group, _GROUP))
            if answer.error_code:
                raise kafka.for_code(answer.error_code)(group)
            self._coordinators[group] = answer.coordinator_id
        return self._coordinators[group]

    async def _diagnosis(self, error: Exception) -> Exception:
        """Return why no broker could be used; the client library only says that none could."""
        causes: dict[str, BaseException] = {}
        for host, port, _ in collect_hosts(self._options["bootstrap_servers"]):
            try:
                async with asyncio.timeout(self._timeout):
                    connection = await create_conn(host, port, **self._connection_options())
            except TROUBLE as cause:
                causes[f"{host}:{port}"] = cause
            else:
                connection.close()
        if not causes:
            return transport_error(error, "connecting")
        errors = [transport_error(cause, f"connecting to {place}") for place, cause in sorted(causes.items())]
        return next((found for found in errors if not found.retriable), errors[0])

    def _connection_options(self) -> dict[str, Any]:
        return {name: value for name, value in self._options.items() if name != "bootstrap_servers"}


async def _close(client: Any) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_WITHIN):
            await client.close()
