"""The depths of a group's queues, polled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from bus.errors import TransportError
from bus.ports.clock import Clock
from bus.ports.transport import Lag
from bus.transports.rabbitmq.config import Patience
from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.strict.nodes import Nodes
from bus.transports.rabbitmq.strict.reader import RabbitmqGroupReader
from bus.transports.rabbitmq.strict.topology import StrictTopology

_log = logging.getLogger(__name__)
# One look alone may find a queue between two leaders, of which RabbitMQ says that it holds nothing.
_ENOUGH: Final = 2


class _QueueDepth(NamedTuple):
    """Number of undelivered messages, and the number of looks in a row at which there was none."""

    ready: int
    empty: int


class Figures:
    """Counts the messages of each queue.

    Parameters
    ----------
    lanes
        Returns the queues to look at.
    readers
        Returns the readers of this process.
    """

    def __init__(
        self,
        nodes: Nodes,
        topology: StrictTopology,
        lanes: Callable[[], Iterable[Lane]],
        readers: Callable[[], Iterable[RabbitmqGroupReader]],
        patience: Patience,
        clock: Clock,
    ) -> None:
        self._nodes = nodes
        self._topology = topology
        self._lanes = lanes
        self._readers = readers
        self._every = patience.poll_every
        self._clock = clock
        self._readings: dict[Lane, _QueueDepth] = {}

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while True:
            try:
                for lane in self._lanes():
                    await self._look(lane)
            except TransportError as error:
                _log.debug("%s", error)
            await self._clock.sleep(self._every)

    def lags(self) -> dict[tuple[str, str], Lag] | None:
        """Return waiting messages, and those unacked at readers of this process; None while no majority answers."""
        if not self._nodes.are_most:
            return None
        return {(lane.destination, lane.subscription): self._lag(lane) for lane in self._lanes()}

    async def _look(self, lane: Lane) -> None:
        depth = await self._topology.depth(await self._nodes.reach_one(), lane)
        before = self._readings.get(lane, _QueueDepth(0, 0))
        if depth.ready:
            self._readings[lane] = _QueueDepth(depth.ready, 0)
        else:
            empty = before.empty + 1
            self._readings[lane] = _QueueDepth(before.ready if empty < _ENOUGH else 0, empty)

    def _lag(self, lane: Lane) -> Lag:
        readers = [reader for reader in self._readers() if reader.lane == lane]
        reading = self._readings.get(lane, _QueueDepth(0, 0))
        records = reading.ready + sum(reader.held for reader in readers)
        held = [reader.oldest for reader in readers if reader.oldest is not None]
        # What waits is younger than what a reader has, and its age is unknown where none has any.
        return Lag(records, min(held, default=0 if reading.empty < _ENOUGH else None))
