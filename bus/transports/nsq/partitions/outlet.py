"""The connections over which partitions are published to: one for each, kept until it fails or the partition moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from bus.sentences import sentence
from bus.transports.backoff import Backoff
from bus.transports.nsq.batches import split
from bus.transports.nsq.confirming import answers_of
from bus.transports.nsq.connection import Connection, connect
from bus.transports.nsq.errors import Answered, Disconnected, NotNsq, NsqFault
from bus.transports.nsq.node import Dependencies
from bus.transports.nsq.partitions.layout import Place
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.protocol.frames import read_traced
from bus.transports.nsq.protocol.http import Limits

_log = logging.getLogger(__name__)
_AWAY_FOR: Final = 0.2
_LONGEST_AWAY: Final = 5.0
_UNKNOWN: Final = Limits(0, 0)


class Outlet:
    """Publishes to one partition where it is led; connects when there is something to publish.

    Attributes
    ----------
    load
        Messages on their way.
    sent
        Messages that were on their way, ever.
    limits
        What its nsqd takes; zeros before the first connection.
    """

    def __init__(self, topic: str, partition: int, place: Place, dependencies: Dependencies) -> None:
        self.place = place
        self.load = 0
        self.sent = 0
        self.limits = _UNKNOWN
        self._topic = topic
        self._partition = partition
        self._config = dependencies.config
        self._http = dependencies.http
        self._haste = dependencies.haste
        self._topology = dependencies.topology
        self._clock = dependencies.clock
        self._backoff = Backoff(_AWAY_FOR, _LONGEST_AWAY, dependencies.noise)
        self._away_until = 0.0
        self._connection: Connection | None = None
        self._connecting = asyncio.Lock()
        self._is_left = False

    async def publish(self, bodies: Mapping[int, bytes], traces: Mapping[int, int]) -> list[int]:
        """Publish messages in order and return the keys of those that were confirmed; never raises for the network.

        An error costs the connection, and has the topic looked up at once: the partition may be led elsewhere.

        Parameters
        ----------
        traces
            The trace ids of messages that are traced: of all or of none.
        """
        self.load += len(bodies)
        self.sent += len(bodies)
        try:
            return await self._publish(bodies, traces)
        except NsqFault as fault:
            self._tell(fault)
            return []
        finally:
            self.load -= len(bodies)
            if self._is_left and not self.load:
                self._drop(self._connection, sentence("the partition is led elsewhere"))

    def leave(self) -> None:
        """Close the connection once nothing is on its way over it."""
        self._is_left = True
        if not self.load:
            self._drop(self._connection, sentence("the partition is led elsewhere"))

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()

    async def _publish(self, bodies: Mapping[int, bytes], traces: Mapping[int, int]) -> list[int]:
        connection = await self._connected()
        parts = self._traced(bodies, traces) if traces else self._together(bodies)
        if not parts:
            return []
        answers = await answers_of(connection, [command for _, command in parts], self._config.timeout)
        fault = next((answer for answer in answers if isinstance(answer, NsqFault)), None)
        if fault is not None:
            self._tell(fault)
            self._drop(connection, str(fault))
        held = [(part, answer) for (part, _), answer in zip(parts, answers, strict=True) if isinstance(answer, bytes)]
        if traces:
            self._tell_traced([answer for _, answer in held])
        return [index for part, _ in held for index in part]

    def _together(self, bodies: Mapping[int, bytes]) -> list[tuple[list[int], bytes]]:
        """Return commands with as many messages as each may have."""
        parts = split({index: len(body) for index, body in bodies.items()}, self.limits)
        return [
            (part, commands.mpub(self._topic, [bodies[index] for index in part], self._partition)) for part in parts
        ]

    def _traced(self, bodies: Mapping[int, bytes], traces: Mapping[int, int]) -> list[tuple[list[int], bytes]]:
        """Return a command for each message: only so nsqd answers where each is."""
        most = self.limits.message - commands.TRACE_OVERHEAD
        return [
            ([index], commands.pub_trace(self._topic, self._partition, traces[index], body))
            for index, body in bodies.items()
            if len(body) <= most
        ]

    def _tell_traced(self, answers: list[bytes]) -> None:
        """Log where messages are, as far as the answers can be read: they are confirmed whatever they say."""
        for answer in answers:
            try:
                found = read_traced(answer)
            except NotNsq as error:
                _log.warning("partition %d of %s: what PUB_TRACE was answered: %s", self._partition, self._topic, error)
                continue
            _log.info(
                "partition %d of %s at nsqd %s: message %d with trace id %d has %d bytes at %d",
                *(self._partition, self._topic, self.place.tcp, found.id, found.trace, found.size, found.offset),
            )

    async def _connected(self) -> Connection:
        """Return the connection, made anew when it is gone; fails at once for a moment after it could not be made."""
        async with self._connecting:
            if self._connection is None or not self._connection.alive:
                if self._clock.monotonic() < self._away_until:
                    raise self._unreached()
                self._connection = await self._connect()
            return self._connection

    async def _connect(self) -> Connection:
        connection, ready = None, None
        try:
            async with asyncio.timeout(self._config.timeout):
                connection = await connect(self.place.tcp, self._config)
                self.limits = await self._http.limits(self.place.http)
                await self._check_channels()
            ready = connection
            self._backoff.succeed()
        except TimeoutError:
            raise self._unreached() from None
        finally:
            if ready is None:
                self._away_until = self._clock.monotonic() + self._backoff.fail()
                if connection is not None:
                    await connection.close()
        return ready

    async def _check_channels(self) -> None:
        """Raise unless the partition has all channels: it may have been made anew while there was no connection."""
        wanted = self._topology.channels(self._topic)
        for found in await self._http.stats(self.place.http, self._topic):
            there = {channel.channel_name for channel in found.channels}
            if found.topic_name == self._topic and found.partition == self._partition and wanted <= there:
                return
        raise Disconnected(
            sentence(
                "partition {number} of {topic} at nsqd {address} lacks channels",
                number=self._partition,
                topic=self._topic,
                address=str(self.place.tcp),
            )
        )

    def _unreached(self) -> Disconnected:
        return Disconnected(sentence("nsqd {address} was not reached just now", address=str(self.place.tcp)))

    def _tell(self, fault: NsqFault) -> None:
        """Log what went wrong, and have the topic looked up."""
        level = logging.WARNING if isinstance(fault, Answered) else logging.INFO
        _log.log(level, "partition %d of %s at nsqd %s: %s", self._partition, self._topic, self.place.tcp, fault)
        self._haste.add(self._topic)

    def _drop(self, connection: Connection | None, why: object) -> None:
        if connection is self._connection:
            self._connection = None
        if connection is not None:
            connection.give_up(Disconnected(str(why)))


class Outlets:
    """The pool: an outlet for each partition that was published to."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._outlets: dict[tuple[str, int], Outlet] = {}

    def of(self, topic: str, partition: int, place: Place) -> Outlet:
        """Return the outlet to a partition that is led there."""
        outlet = self._outlets.get((topic, partition))
        if outlet is None or outlet.place != place:
            if outlet is not None:
                outlet.leave()
            outlet = self._outlets[topic, partition] = Outlet(topic, partition, place, self._dependencies)
        return outlet

    def follow(self, topic: str, led: Mapping[int, Place]) -> None:
        """Leave the partitions of a topic that are not led any more where they were."""
        for key, outlet in list(self._outlets.items()):
            if key[0] == topic and led.get(key[1]) != outlet.place:
                del self._outlets[key]
                outlet.leave()

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(outlet.close() for outlet in self._outlets.values()))
        self._outlets.clear()
