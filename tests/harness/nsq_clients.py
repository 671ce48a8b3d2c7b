"""Producers and consumers of NSQ that find nsqds by a lookup every so often, as clients of the fork do."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self

import httpx

from tests.harness.http import PLAIN

_RESPONSE: Final = 0
_MESSAGE: Final = 2
_HEAD: Final = 26
_ORDERED_HEAD: Final = 12
_AGAIN: Final = 0.05


class Place(NamedTuple):
    """An nsqd, and the partition that is meant; -1 on stock NSQ."""

    host: str
    tcp: int
    partition: int = -1


class Refused(Exception):
    """An nsqd answered with an error, or closed the connection."""


class Line:
    """One connection to an nsqd."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, place: Place) -> Self:
        """Connect and introduce oneself."""
        try:
            line = cls(*await asyncio.open_connection(place.host, place.tcp))
        except OSError as error:
            raise Refused(str(error)) from error
        try:
            await line._introduce()
        except BaseException:
            line.close()
            raise
        return line

    async def _introduce(self) -> None:
        body = json.dumps({"client_id": "test", "heartbeat_interval": 30_000, "feature_negotiation": False}).encode()
        self.send(b"  V2IDENTIFY\n" + struct.pack(">I", len(body)) + body)
        await self.confirm()

    def send(self, content: bytes) -> None:
        """Send, later."""
        self._writer.write(content)

    async def confirm(self) -> None:
        """Wait for an answer that is good."""
        kind, payload = await self.frame()
        if kind != _RESPONSE:
            raise Refused(payload.decode("latin-1"))

    async def frame(self) -> tuple[int, bytes]:
        """Return the next frame that is no heartbeat."""
        try:
            while True:
                size, kind = struct.unpack(">II", await self._reader.readexactly(8))
                payload = await self._reader.readexactly(size - 4)
                if kind != _RESPONSE or payload != b"_heartbeat_":
                    return kind, payload
                self.send(b"NOP\n")
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Refused(str(error)) from error

    def close(self) -> None:
        """Close it at once."""
        self._writer.close()


class Lookups:
    """Asks one of several lookup proxies, the next one when that does not answer."""

    def __init__(self, urls: Sequence[str], topic: str) -> None:
        self._urls = list(urls)
        self._topic = topic
        self._http = httpx.AsyncClient(timeout=5, headers={"accept": "application/vnd.nsq; version=1.0"}, **PLAIN)

    async def ask(self, access: str) -> dict[str, Any] | None:
        """Return an answer; None when nobody gives one."""
        query = {"topic": self._topic, "access": access, "metainfo": "true"}
        for url in list(self._urls):
            try:
                answer = await self._http.get(f"{url}/lookup", params=query)
            except httpx.TransportError:
                self._urls.append(self._urls.pop(0))
                continue
            if answer.status_code == httpx.codes.OK:
                found: dict[str, Any] = answer.json()
                return found
        return None

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


def places(answer: dict[str, Any]) -> list[Place]:
    """Return where partitions are, or stock nsqds."""
    if answer.get("partitions"):
        return [_place(peer, int(number)) for number, peer in answer["partitions"].items()]
    return [_place(peer, -1) for peer in answer["producers"]]


def _place(peer: dict[str, Any], partition: int) -> Place:
    return Place(peer["broadcast_address"], peer["tcp_port"], partition)


class Client:
    """Looks up every ``interval`` seconds until it is left."""

    def __init__(self, urls: Sequence[str], topic: str, interval: float) -> None:
        self._lookups = Lookups(urls, topic)
        self.topic = topic
        self._interval = interval
        self._tasks: set[asyncio.Task[None]] = set()

    def _work(self) -> list[Any]:
        raise NotImplementedError

    def _leave(self) -> None:
        """Close what is open."""

    async def __aenter__(self) -> Self:
        self._tasks = {asyncio.ensure_future(work) for work in self._work()}
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._leave()
        await self._lookups.close()
        await asyncio.sleep(0)  # for what is closed to be gone


class Producer(Client):
    """Sends ``KEY:NUMBER`` of some keys in turn, each until an nsqd has it, so that a key's numbers are in order.

    Attributes
    ----------
    sent
        By key the last number that an nsqd confirmed.
    """

    def __init__(self, urls: Sequence[str], topic: str, interval: float, keys: Sequence[str], rate: float) -> None:
        super().__init__(urls, topic, interval)
        self.sent = dict.fromkeys(keys, 0)
        self.stopping = False
        self._rate = rate
        self._places: list[Place] = []
        self._count = 0
        self._lines: dict[Place, Line] = {}

    def _work(self) -> list[Any]:
        return [self._look(), self._send()]

    def _leave(self) -> None:
        for line in self._lines.values():
            line.close()

    async def _look(self) -> None:
        while True:
            answer = await self._lookups.ask("w")
            if answer is not None:
                self._places = places(answer)
                self._count = (answer.get("meta") or {}).get("partition_num") or len(self._places)
                for gone in self._lines.keys() - set(self._places):
                    self._lines.pop(gone).close()
            await asyncio.sleep(self._interval)

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        begun, count = loop.time(), 0
        while not self.stopping:
            for key in self.sent:
                await self._publish(key, self.sent[key] + 1)
                self.sent[key] += 1
                count += 1
                if (ahead := count / self._rate - (loop.time() - begun)) > 0:
                    await asyncio.sleep(ahead)
                elif ahead < -1:
                    begun, count = loop.time(), 0  # no burst after a pause

    async def _publish(self, key: str, number: int) -> None:
        body = f"{key}:{number}".encode()
        while True:
            place = self._choose(key)
            try:
                if place is not None:
                    line = self._lines.get(place)
                    if line is None:
                        line = self._lines[place] = await Line.open(place)
                    partition = b" %d" % place.partition if place.partition >= 0 else b""
                    line.send(b"PUB %b%b\n%b%b" % (self.topic.encode(), partition, struct.pack(">I", len(body)), body))
                    await line.confirm()
                    return
            except Refused:
                if (lost := self._lines.pop(place, None)) is not None:
                    lost.close()
            await asyncio.sleep(_AGAIN)

    def _choose(self, key: str) -> Place | None:
        if not self._places or not self._count:
            return None
        number = zlib.crc32(key.encode()) % self._count
        if self._places[0].partition < 0:
            return self._places[number % len(self._places)]
        return next((place for place in self._places if place.partition == number), None)


class Consumer(Client):
    """Subscribes everywhere that a lookup names, and finishes what it gets.

    Attributes
    ----------
    got
        By key the numbers as they came, with those that came again.
    places
        Where it is connected.
    """

    def __init__(
        self,
        urls: Sequence[str],
        topic: str,
        channel: str,
        interval: float,
        *,
        is_ordered: bool = False,
        window: int = 100,
    ) -> None:
        super().__init__(urls, topic, interval)
        self.got: dict[str, list[int]] = {}
        self.places: dict[Place, asyncio.Task[None]] = {}
        self._channel = channel
        self._is_ordered = is_ordered
        self._window = window

    def _work(self) -> list[Any]:
        return [self._look()]

    async def _look(self) -> None:
        try:
            while True:
                answer = await self._lookups.ask("r")
                if answer is not None:
                    wanted = set(places(answer))
                    known = {(place.host, place.tcp) for place in wanted}
                    if not self._is_ordered:
                        others = [_place(peer, -1) for peer in answer["producers"]]
                        wanted |= {place for place in others if (place.host, place.tcp) not in known}
                    await self._follow(wanted)
                await asyncio.sleep(self._interval)
        finally:
            await self._follow(set())

    async def _follow(self, wanted: set[Place]) -> None:
        for gone in [place for place, task in self.places.items() if place not in wanted or task.done()]:
            task = self.places.pop(gone)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for place in wanted - self.places.keys():
            self.places[place] = asyncio.ensure_future(self._consume(place))

    async def _consume(self, place: Place) -> None:
        with contextlib.suppress(Refused):
            line = await Line.open(place)
            try:
                await self._subscribe(line, place)
            finally:
                line.close()

    async def _subscribe(self, line: Line, place: Place) -> None:
        command = "SUB_ORDERED" if self._is_ordered else "SUB"
        partition = f" {place.partition}" if place.partition >= 0 else ""
        line.send(f"{command} {self.topic} {self._channel}{partition}\n".encode())
        await line.confirm()
        line.send(b"RDY %d\n" % (1 if self._is_ordered else self._window))
        skipped = _HEAD + (_ORDERED_HEAD if self._is_ordered else 0)
        while True:
            kind, payload = await line.frame()
            if kind != _MESSAGE:
                continue
            key, _, number = payload[skipped:].decode().partition(":")
            self.got.setdefault(key, []).append(int(number))
            line.send(b"FIN %b\n" % payload[10:26])


def missing(sent: dict[str, int], *consumers: Consumer) -> dict[str, list[int]]:
    """Return what no consumer got of what was confirmed."""
    got: dict[str, set[int]] = {}
    for consumer in consumers:
        for key, numbers in consumer.got.items():
            got.setdefault(key, set()).update(numbers)
    found = {key: [n for n in range(1, last + 1) if n not in got.get(key, set())] for key, last in sent.items()}
    return {key: numbers for key, numbers in found.items() if numbers}


def inversions(consumer: Consumer) -> dict[str, list[int]]:
    """Return the numbers that came for the first time behind a greater one of their key."""
    found: dict[str, list[int]] = {}
    for key, numbers in consumer.got.items():
        highest, seen = 0, set()
        for number in numbers:
            if number < highest and number not in seen:
                found.setdefault(key, []).append(number)
            seen.add(number)
            highest = max(highest, number)
    return found
