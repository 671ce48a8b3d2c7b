"""The connections over which partitions are published to: one for each, kept until it fails or the partition moves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from bus.localized_text import AnyText, localized, text_of_error
from bus.transports.backoff import Backoff
from bus.transports.nsq.batches import split
from bus.transports.nsq.confirming import answers_of
from bus.transports.nsq.connection import Connection, connect
from bus.transports.nsq.errors import ConnectionLost, ErrorFrame, NotNsq, NsqFault
from bus.transports.nsq.node import Dependencies
from bus.transports.nsq.partitions.layout import Place
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.protocol.frames import read_traced
from bus.transports.nsq.protocol.http import Limits

_log = logging.getLogger(__name__)
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 5.0
_PATIENCE: Final = 2.0
_TOLD_FOR: Final = 30.0
_UNKNOWN: Final = Limits(0, 0)

Spawn = Callable[[Callable[[], Coroutine[Any, Any, None]]], "asyncio.Task[None] | None"]


class Outlet:
    """Publishes to one partition at its leader; connects when there is something to publish.

    Messages wait a moment for a connection, and not at all for a partition that took none of those before them: it is
    connected to beside, so that it does not hold up what goes to others.

    Parameters
    ----------
    spawn
        Begins a task, unless nothing runs any more.

    Attributes
    ----------
    load
        Messages on their way.
    sent
        Messages that were on their way, ever.
    limits
        What its nsqd takes; zeros before the first connection.
    """

    def __init__(self, topic: str, partition: int, place: Place, dependencies: Dependencies, spawn: Spawn) -> None:
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
        self._backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, dependencies.noise)
        self._spawn = spawn
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._patient_until = 0.0
        self._is_left = False
        self._fault: NsqFault | None = None
        self._failed = 0.0

    @property
    def trouble(self) -> AnyText:
        """Why recent messages were not accepted; empty text when they are, or none was sent for a while."""
        if self._fault is None or self._clock.monotonic() - self._failed > _TOLD_FOR:
            return ""
        return localized(
            "partition {number} at nsqd {address} takes no messages: {error}; messages of its keys wait",
            number=self._partition,
            address=str(self.place.tcp),
            error=text_of_error(self._fault),
        )

    async def publish(self, bodies: Mapping[int, bytes], traces: Mapping[int, int]) -> list[int]:
        """Publish messages in order and return the keys of those that were confirmed; never raises for the network.

        An error costs the connection, and has the topic looked up at once: the partition may be led elsewhere.
        Waits for little more than one time-out.

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
            self._haste.add(self._topic)
            _log.debug("partition %d of %s at nsqd %s: %s", self._partition, self._topic, self.place.tcp, fault)
            return []
        finally:
            self.load -= len(bodies)
            if self._is_left and not self.load:
                self._drop(self._connection, localized("the partition is led elsewhere"))

    def leave(self) -> None:
        """Close the connection once nothing is on its way over it."""
        self._is_left = True
        if self._connecting is not None:
            self._connecting.cancel()
        if not self.load:
            self._drop(self._connection, localized("the partition is led elsewhere"))

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            await self._connection.close()

    async def _publish(self, bodies: Mapping[int, bytes], traces: Mapping[int, int]) -> list[int]:
        connection = await self._connected()
        parts = self._one_by_one(bodies, traces) if traces else self._together(bodies)
        if not parts:
            return []
        answers = await answers_of(connection, [command for _, command in parts], self._config.timeout)
        fault = next((answer for answer in answers if isinstance(answer, NsqFault)), None)
        if fault is None:
            self._succeed()
        else:
            self._drop(connection, str(fault))
            self._fail(fault)
        held = [(part, answer) for (part, _), answer in zip(parts, answers, strict=True) if isinstance(answer, bytes)]
        if traces:
            self._tell_traced([answer for (index, *_), answer in held if self._may_trace(bodies[index])])
        return [index for part, _ in held for index in part]

    def _together(self, bodies: Mapping[int, bytes]) -> list[tuple[list[int], bytes]]:
        """Return commands with as many messages as each may have."""
        parts = split({index: len(body) for index, body in bodies.items()}, self.limits)
        return [
            (part, commands.mpub(self._topic, [bodies[index] for index in part], self._partition)) for part in parts
        ]

    def _one_by_one(self, bodies: Mapping[int, bytes], traces: Mapping[int, int]) -> list[tuple[list[int], bytes]]:
        """Return a command for each message: only so nsqd answers where each is.

        One that nsqd takes only without its trace id goes without: it is worth more than that.
        """
        parts: list[tuple[list[int], bytes]] = []
        for index, body in bodies.items():
            if self._may_trace(body):
                parts.append(([index], commands.pub_trace(self._topic, self._partition, traces[index], body)))
            elif plain := self._together({index: body}):
                parts += plain
                _log.warning(
                    "partition %d of %s: with its trace id %d a message is larger than nsqd takes, and goes without; "
                    "start nsqd with a larger --max-msg-size",
                    *(self._partition, self._topic, traces[index]),
                )
        return parts

    def _may_trace(self, body: bytes) -> bool:
        return len(body) + commands.TRACE_OVERHEAD <= self.limits.message

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
        """Return the connection, or have it made; raises ``ConnectionLost`` when that takes longer than a moment."""
        if self._connection is None or not self._connection.alive:
            self._begin()
            patience = self._patient_until - self._clock.monotonic()
            if self._connecting is not None and self._fault is None and patience > 0:
                await asyncio.wait([self._connecting], timeout=patience)
        if self._connection is None or not self._connection.alive:
            raise ConnectionLost(localized("nsqd {address} was not reached just now", address=str(self.place.tcp)))
        return self._connection

    def _begin(self) -> None:
        """Connect in a task of its own, unless that is under way."""
        if not self._is_left and (self._connecting is None or self._connecting.done()):
            self._patient_until = self._clock.monotonic() + _PATIENCE
            self._connecting = self._spawn(self._connect)

    async def _connect(self) -> None:
        """Make the connection, after a pause when something has failed; never raises for the network."""
        if self._fault is not None:
            await self._clock.sleep(self._backoff.fail())
        connection, ready = None, None
        try:
            async with asyncio.timeout(self._config.timeout):
                connection = await connect(self.place.tcp, self._config)
                self.limits = await self._http.limits(self.place.http)
                await self._check_channels()
            self._connection = ready = connection
        except TimeoutError:
            late = localized(
                "{address} does not answer within {seconds} s",
                address=str(self.place.tcp),
                seconds=f"{self._config.timeout:g}",
            )
            self._note(ConnectionLost(late))
        except NsqFault as fault:
            self._note(fault)
        finally:
            if ready is None and connection is not None:
                await connection.close()

    async def _check_channels(self) -> None:
        """Raise unless the partition has all channels: it may have been made anew while there was no connection."""
        wanted = self._topology.channels(self._topic)
        for found in await self._http.stats(self.place.http, self._topic):
            there = {channel.channel_name for channel in found.channels}
            if found.topic_name == self._topic and found.partition == self._partition and wanted <= there:
                return
        raise ConnectionLost(
            localized(
                "partition {number} of {topic} at nsqd {address} lacks channels",
                number=self._partition,
                topic=self._topic,
                address=str(self.place.tcp),
            )
        )

    def _succeed(self) -> None:
        if self._fault is not None:
            _log.info("partition %d of %s at nsqd %s takes messages", self._partition, self._topic, self.place.tcp)
        self._fault = None
        self._backoff.succeed()

    def _fail(self, fault: NsqFault) -> None:
        """Note why messages were not accepted, and reconnect."""
        self._note(fault)
        self._begin()

    def _note(self, fault: NsqFault) -> None:
        """Note a fault, log the first one in a row, and have the topic looked up."""
        if self._fault is None:
            level = logging.WARNING if isinstance(fault, ErrorFrame) else logging.INFO
            _log.log(level, "partition %d of %s at nsqd %s: %s", self._partition, self._topic, self.place.tcp, fault)
        self._fault, self._failed = fault, self._clock.monotonic()
        self._haste.add(self._topic)

    def _drop(self, connection: Connection | None, why: object) -> None:
        if connection is self._connection:
            self._connection = None
        if connection is not None:
            connection.give_up(ConnectionLost(str(why)))


class Outlets:
    """The pool: an outlet for each partition that was published to."""

    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._outlets: dict[tuple[str, int], Outlet] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Make connections until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    def troubles(self) -> dict[str, list[AnyText]]:
        """Return why partitions of a topic take no messages, by the topic."""
        found: dict[str, list[AnyText]] = {}
        for (topic, _), outlet in sorted(self._outlets.items(), key=lambda item: item[0]):
            if trouble := outlet.trouble:
                found.setdefault(topic, []).append(trouble)
        return found

    def of(self, topic: str, partition: int, place: Place) -> Outlet:
        """Return the outlet to a partition that is led there."""
        outlet = self._outlets.get((topic, partition))
        if outlet is None or outlet.place != place:
            if outlet is not None:
                outlet.leave()
            outlet = Outlet(topic, partition, place, self._dependencies, self._spawn)
            self._outlets[topic, partition] = outlet
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

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None] | None:
        return self._group.create_task(work()) if self._group is not None else None
