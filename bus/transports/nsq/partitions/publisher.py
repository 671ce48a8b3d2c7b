"""Publishing to the partitions of a topic: a key to its own, everything else to where least is on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from bus.domain.identity import trace_number
from bus.localized_text import AnyText
from bus.ports.transport import OutgoingMessage
from bus.transports.nsq.batches import tell_too_large
from bus.transports.nsq.codec import wrap
from bus.transports.nsq.node import Dependencies
from bus.transports.nsq.partitions.layout import Place, partition_of
from bus.transports.nsq.partitions.outlet import Outlet, Outlets
from bus.transports.nsq.partitions.routes import Routes
from bus.transports.nsq.protocol.http import Limits

_RUN: Final = 64
"""Messages without a key that go to one partition together, so that they share commands and all partitions get some."""


class PartitionPublisher:
    """Publishes to the partitions that hold messages for all channels.

    A message without a key that one partition does not accept goes to another one. One with a key waits for its own
    partition: the caller tries again, and the topic is looked up at once.
    """

    def __init__(self, routes: Routes, dependencies: Dependencies) -> None:
        self._routes = routes
        self._timeout = dependencies.config.timeout
        self._clock = dependencies.clock
        self._topology = dependencies.topology
        self._haste = dependencies.haste
        self._outlets = Outlets(dependencies)

    async def run(self) -> None:
        """Make connections until cancelled."""
        await self._outlets.run()

    def has(self, topic: str) -> bool:
        """Whether the topic has partitions."""
        return self._routes.layout(topic).is_partitioned

    def troubles(self) -> dict[str, list[AnyText]]:
        """Return why partitions of a topic take no messages, by the topic."""
        return self._outlets.troubles()

    def follow(self, topic: str) -> None:
        """Leave the nsqds on which partitions of a topic were and are not any more."""
        self._outlets.follow(topic, self._routes.layout(topic).writable)

    async def publish(self, topic: str, batch: Mapping[int, OutgoingMessage]) -> set[int]:
        """Return which messages a partition confirmed, by their keys; never raises for the network.

        Waits for little more than two time-outs: it tries no further partition after the first.
        """
        bodies = {index: wrap(item.payload) for index, item in batch.items()}
        is_traced = self._topology.is_traced(topic)
        traces = {index: trace_number(item.message.id) for index, item in batch.items()} if is_traced else {}
        held: set[int] = set()
        refusing: set[int] = set()
        until = self._clock.monotonic() + self._timeout
        while left := batch.keys() - held:
            open_ones = {n: place for n, place in self._routes.open_partitions(topic).items() if n not in refusing}
            shares = self._shared(topic, open_ones, {index: batch[index].message.key for index in sorted(left)})
            if not shares:
                break
            for number, taken in await self._publish_shares(topic, open_ones, shares, bodies, traces):
                held |= taken
                if len(taken) < len(shares[number]):
                    refusing.add(number)
            if self._clock.monotonic() >= until:
                break
        self._tell(topic, batch, bodies, held)
        return held

    async def close(self) -> None:
        """Close the connections."""
        await self._outlets.close()

    def _shared(self, topic: str, open_ones: Mapping[int, Place], keys: Mapping[int, str]) -> dict[int, list[int]]:
        """Return the messages for each partition; messages whose partition is not open are left out."""
        count = self._routes.layout(topic).count
        shares: dict[int, list[int]] = {}
        for index, key in keys.items():
            if key and count and (number := partition_of(key, count)) in open_ones:
                shares.setdefault(number, []).append(index)
        loads = {number: self._outlets.of(topic, number, place) for number, place in open_ones.items()}
        return spread(
            [index for index, key in keys.items() if not key], shares, lambda number: _load(loads[number]), loads
        )

    async def _publish_shares(
        self,
        topic: str,
        open_ones: Mapping[int, Place],
        shares: Mapping[int, list[int]],
        bodies: Mapping[int, bytes],
        traces: Mapping[int, int],
    ) -> list[tuple[int, set[int]]]:
        async def publish(number: int, indexes: list[int]) -> tuple[int, set[int]]:
            outlet = self._outlets.of(topic, number, open_ones[number])
            return number, set(await outlet.publish({index: bodies[index] for index in indexes}, traces))

        self._topology.publishing(topic, self._clock.monotonic())
        found = await asyncio.gather(*(publish(number, indexes) for number, indexes in shares.items()))
        self._topology.publishing(topic, self._clock.monotonic())
        return found

    def _tell(
        self, topic: str, batch: Mapping[int, OutgoingMessage], bodies: Mapping[int, bytes], held: set[int]
    ) -> None:
        """Have the topic looked up when a message was not held, and log messages that are too large in any case."""
        left = {index: len(body) for index, body in bodies.items() if index not in held}
        limits = self._limits(topic)
        if any(not limits.message or size <= limits.message for size in left.values()):
            self._haste.add(topic)
        tell_too_large(topic, {index: batch[index].message.id for index in left}, left, limits)

    def _limits(self, topic: str) -> Limits:
        """Return the limits of one of the nsqds that were reached, which have the same settings; else zeros."""
        outlets = (self._outlets.of(topic, *led) for led in self._routes.open_partitions(topic).items())
        return next((outlet.limits for outlet in outlets if outlet.limits.message), Limits(0, 0))


def spread(
    indexes: list[int], shares: dict[int, list[int]], load: Callable[[int], tuple[int, int]], numbers: Iterable[int]
) -> dict[int, list[int]]:
    """Add messages without a key to the shares of partitions, in runs, each to the one with the least load so far.

    Parameters
    ----------
    load
        Gives what is on its way to a partition, and what ever was, besides these shares.
    """
    numbers = sorted(numbers)
    for begin in range(0, len(indexes) if numbers else 0, _RUN):

        def loaded(number: int) -> tuple[int, int, int]:
            own = len(shares.get(number, ()))
            under_way, ever = load(number)
            return under_way + own, ever + own, number

        shares.setdefault(min(numbers, key=loaded), []).extend(indexes[begin : begin + _RUN])
    return shares


def _load(outlet: Outlet) -> tuple[int, int]:
    return outlet.load, outlet.sent
