"""One nsqd: a connection to publish on, its channels, and their depths."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from bus.localized_text import AnyText, localized, text_of_error
from bus.ports.clock import Clock
from bus.transports.backoff import Backoff
from bus.transports.nsq.config import Address, NsqConfig, NsqdAddress
from bus.transports.nsq.confirming import answers_of
from bus.transports.nsq.connection import Connection, connect
from bus.transports.nsq.errors import ConnectionLost, ErrorFrame, NotNsq, NsqFault, PermissionRefused
from bus.transports.nsq.lag import ChannelDepths, reading_of
from bus.transports.nsq.partitions.urgent_lookups import UrgentLookups
from bus.transports.nsq.protocol import commands
from bus.transports.nsq.protocol.http import Limits, NsqHttp
from bus.transports.nsq.topology import Lane, Topology

_log = logging.getLogger(__name__)
FIRST_BACKOFF: Final = 0.1
LONGEST_BACKOFF: Final = 5.0
_FORBIDDEN_FOR: Final = 30.0
_STALE_POLLS: Final = 5
_LOOKS: Final = 20
_LOOK_AGAIN: Final = 0.02
_FORBIDDING: Final = frozenset({"E_UNAUTHORIZED", "E_AUTH_FAILED", "E_AUTH_FIRST"})


class Dependencies(NamedTuple):
    """The objects that all parts of one transport share."""

    config: NsqConfig
    http: NsqHttp
    clock: Clock
    noise: Callable[[], float]
    topology: Topology
    haste: UrgentLookups


class Nsqd:
    """Keeps one nsqd connected, and tracks which of the demanded channels exist, as of this connection.

    Nothing is published to a topic before all its channels exist, so that none of them misses a message. The state is
    dropped with the connection: the nsqd that comes back may be an empty one.

    Parameters
    ----------
    home
        Messages are published here, so every demanded channel is made; elsewhere only in topics that are there.
    is_fork
        It keeps partitions of topics: their channels are no matter of one nsqd.
    find_http
        Returns the port of its HTTP API as far as other sources list it.
    told
        Called with each of its figures, where it is one of the fork.
    """

    def __init__(
        self,
        address: NsqdAddress,
        dependencies: Dependencies,
        *,
        home: bool,
        is_fork: bool,
        find_http: Callable[[Address], int | None],
        told: Callable[[Address, ChannelDepths], None],
    ) -> None:
        self.address = address.tcp
        self._told = told
        self.home = home
        self.is_fork = is_fork
        self.tried = asyncio.Event()
        self.announced: Address | None = None
        self.trouble: AnyText = localized("not reached yet")
        self.denied = False
        self._told_http = address.http
        self._find_http = find_http
        self._config = dependencies.config
        self._api = dependencies.http
        self._clock = dependencies.clock
        self._noise = dependencies.noise
        self._topology = dependencies.topology
        self._connection: Connection | None = None
        self._limits = Limits(0, 0)
        self._there: dict[str, set[str]] = {}
        self._removals: set[Lane] = set()
        self._forbidden: dict[str, float] = {}
        self._readings: tuple[ChannelDepths, ...] = ()
        self._changing = asyncio.Lock()

    @property
    def connected(self) -> bool:
        """Whether it can be published to."""
        return self._connection is not None and self._connection.alive

    @property
    def limits(self) -> Limits:
        """The limits of the nsqd, as of the beginning of the connection."""
        return self._limits

    def ready(self, topic: str) -> bool:
        """Whether a message that is published to a topic now is held for all its channels."""
        return (
            self.connected
            and self._topology.channels(topic) <= self._there.get(topic, set())
            and self._forbidden.get(topic, 0.0) <= self._clock.monotonic()
        )

    def has(self, topic: str) -> bool:
        """Whether the topic exists, according to the nsqd's last answer."""
        return topic in self._there

    def readings(self) -> tuple[ChannelDepths, ...]:
        """Return its last figures, two at most, the newest last; none when it does not answer any more."""
        stale = self._clock.monotonic() - _STALE_POLLS * max(self._config.stats_interval, 1.0)
        return self._readings if self._readings and self._readings[-1].asked >= stale else ()

    async def run(self) -> None:
        """Connect, and reconnect without end."""
        backoff = Backoff(FIRST_BACKOFF, LONGEST_BACKOFF, self._noise)
        while True:
            fault = await self._live(backoff)
            if not self.trouble:
                _log.warning("nsqd %s is away: %s", self.address, fault)
            self.trouble = text_of_error(fault)
            self.denied = isinstance(fault, PermissionRefused | ErrorFrame)
            self.tried.set()
            await self._clock.sleep(backoff.fail())

    async def _live(self, backoff: Backoff) -> NsqFault:
        """Connect and stay connected; return the fault that ended it."""
        connection: Connection | None = None
        try:
            # First the connection, then the questions: as long as it lasts, the answers are of the same process.
            connection = await connect(self.address, self._config)
            await self._inspect()
            if not connection.alive:
                return await connection.lost()
            self._connection = connection
            self.trouble = ""
            self.denied = False
            self.tried.set()
            backoff.succeed()
            return await self._keep(connection)
        except NsqFault as fault:
            return fault
        finally:
            self._connection = None
            self._there.clear()
            self._readings = ()
            if connection is not None:
                await connection.close()

    async def _keep(self, connection: Connection) -> NsqFault:
        async with asyncio.TaskGroup() as group:
            polling = group.create_task(self._poll())
            fault = await connection.lost()
            polling.cancel()
        return fault

    async def _inspect(self) -> None:
        info = await self._api.info(self._http())
        if self._is_guess and info.tcp_port != self.address.port:
            raise NotNsq(
                localized(
                    "http://{address} belongs to another nsqd; name its HTTP port: {nsqd}/PORT",
                    address=str(self._http()),
                    nsqd=str(self.address),
                )
            )
        self.announced = Address(info.broadcast_address, info.tcp_port)
        self._limits = await self._api.limits(self._http())
        await self._refresh()

    async def _poll(self) -> None:
        while True:
            await self._clock.sleep(self._config.stats_interval)
            try:
                await self._refresh()
            except NsqFault as fault:
                self.trouble = text_of_error(fault)
            else:
                self.trouble = self._forbidden_now()

    def _http(self) -> Address:
        port = self._told_http or self._find_http(self.address) or self.address.port + 1
        return Address(self.address.host, port)

    @property
    def _is_guess(self) -> bool:
        return not self._told_http and not self._find_http(self.address)

    async def prepare(self, topic: str) -> None:
        """Make the demanded channels of a topic that are not known to be there.

        Raises
        ------
        NsqFault
            They are not there, and nothing will be published to the topic here before they are.
        """
        self._demand_connection()
        if not self._topology.channels(topic) <= self._there.get(topic, set()):
            async with self._changing_soon():
                await self._make(topic)

    async def remove(self, lane: Lane) -> None:
        """Delete a channel now, or as soon as this nsqd is back.

        Raises
        ------
        NsqFault
            It is not deleted yet.
        """
        self._removals.add(lane)
        self._demand_connection()
        async with self._changing_soon():
            await self._settle()

    def keep(self, lane: Lane) -> None:
        """Delete a channel no more that was to be deleted."""
        self._removals.discard(lane)

    def _demand_connection(self) -> None:
        if not self.connected:
            raise ConnectionLost(
                localized("nsqd {address} is unreachable: {trouble}", address=str(self.address), trouble=self.trouble)
            )

    @asynccontextmanager
    async def _changing_soon(self) -> AsyncIterator[None]:
        """Change channels alone, within one time-out however many others wait for their turn."""
        try:
            async with asyncio.timeout(self._config.timeout), self._changing:
                yield
        except TimeoutError:
            why = f"nsqd {self.address} has not changed its channels within {self._config.timeout:g} s"
            raise ConnectionLost(why) from None

    async def _refresh(self) -> None:
        """Ask for all figures and channels, and make or delete channels as demanded."""
        async with self._changing:
            asked = self._clock.monotonic()
            reading = reading_of(await self._api.stats(self._http()), asked)
            self._readings = (*self._readings[-1:], reading)
            if self.is_fork:
                self._told(self.address, reading)
                return
            self._there = {topic: set(channels) for topic, channels in reading.topics.items()}
            await self._settle()
            for topic in [topic for topic in self._topology.topics if self.home or topic in self._there]:
                await self._make(topic)

    async def _make(self, topic: str) -> None:
        missing = self._topology.channels(topic) - self._there.get(topic, set())
        if not missing:
            return
        if self._there.get(topic):
            await self._distributed(topic)
        await self._api.create(self._http(), topic, missing)
        self._there.setdefault(topic, set()).update(missing)

    async def _distributed(self, topic: str) -> None:
        """Wait a little until the present channels have all that was published, so that a new one does not get it."""
        for _ in range(_LOOKS):
            if not any(found.depth for found in await self._api.stats(self._http(), topic)):
                return
            await self._clock.sleep(_LOOK_AGAIN)

    async def _settle(self) -> None:
        """Delete the channels that are still to be deleted."""
        for lane in list(self._removals):
            if lane not in self._removals:
                continue  # it is wanted again by now
            self._there.get(lane.topic, set()).discard(lane.channel)
            await self._api.delete(self._http(), *lane)
            self._removals.discard(lane)

    async def publish(self, topic: str, batches: Sequence[Sequence[bytes]]) -> list[bool]:
        """Publish batches, each within the limits; say for each whether nsqd confirmed it within the time-out.

        One that is not confirmed may have been taken all the same.
        """
        connection = self._connection
        if connection is None or not batches:
            return [False] * len(batches)
        asked = [commands.mpub(topic, batch) for batch in batches]
        return [self._confirmed(topic, one) for one in await answers_of(connection, asked, self._config.timeout)]

    def _confirmed(self, topic: str, answer: bytes | NsqFault) -> bool:
        if isinstance(answer, ErrorFrame):
            _log.warning("nsqd %s refused messages for %s, they go elsewhere: %s", self.address, topic, answer)
            if answer.code in _FORBIDDING:
                # Each refusal costs the connection, which other destinations share.
                self._forbidden[topic] = self._clock.monotonic() + _FORBIDDEN_FOR
        return isinstance(answer, bytes)

    def _forbidden_now(self) -> AnyText:
        now = self._clock.monotonic()
        self._forbidden = {topic: until for topic, until in self._forbidden.items() if until > now}
        if not self._forbidden:
            return ""
        return localized("publishing is not allowed to {topics}", topics=", ".join(sorted(self._forbidden)))
