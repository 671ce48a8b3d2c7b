"""The depths of one cluster's queues, polled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from bus.domain.health.progress import Observation, Progress, Windows
from bus.errors import TransportError, TransportRefused, TransportUnavailable
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.transport import Lag
from bus.transports.rabbitmq.config import Patience
from bus.transports.rabbitmq.connection import Connection
from bus.transports.rabbitmq.consumer import RabbitmqConsumer
from bus.transports.rabbitmq.errors import QueueMissing
from bus.transports.rabbitmq.feed import Feed
from bus.transports.rabbitmq.names import Lane, queue_of
from bus.transports.rabbitmq.session import Channel, Session
from bus.transports.rabbitmq.topology import Topology, WantedBindings

_log = logging.getLogger(__name__)
_ENOUGH: Final = 2
# A look at many queues must not keep the broker busy: it takes a tenth of the time at most.
_PAUSE_FACTOR: Final = 9.0


class _QueueDepth(NamedTuple):
    """One look at a queue.

    Attributes
    ----------
    ready
        Messages that no consumer has.
    empty
        Looks in a row, this one included, at which none was ready.
    starved
        Looks in a row at which a consumer of ours should have got something and did not.
    delivered
        What our consumers had got by then.
    mute_since
        Since when the broker says that it neither holds anything nor has consumers, as it also does while the queue's
        leader is busy; None when it says otherwise, minus infinity when it never did.
    consumers
        Of all processes.
    fallen
        By how much ``ready`` has fallen from one look to the next, added up.
    """

    ready: int
    empty: int
    starved: int
    delivered: int
    mute_since: float | None
    consumers: int = 0
    fallen: int = 0


class LagWatch:
    """Counts the messages of each queue, and detects missing queues and vanished consumers.

    Parameters
    ----------
    cluster
        Its name.
    consumers
        Returns the consumers of this process.
    """

    def __init__(
        self,
        cluster: str,
        connection: Connection,
        topology: Topology,
        wanted: WantedBindings,
        consumers: Callable[[], Iterable[RabbitmqConsumer]],
        patience: Patience,
        clock: Clock,
    ) -> None:
        self._cluster = cluster
        self._connection = connection
        self._topology = topology
        self._wanted = wanted
        self._consumers = consumers
        self._patience = patience
        self._clock = clock
        self._readings: dict[Lane, _QueueDepth] = {}
        self._windows: dict[Lane, Windows] = {}
        self._spared: dict[Lane, float] = {}
        self._seen_at = clock.monotonic()
        self._channel: Channel | None = None
        self._session: Session | None = None

    async def run(self) -> None:
        """Poll until cancelled; a connection whose broker does not answer is given up."""
        while True:
            session = await self._connection.up()
            started = self._clock.monotonic()
            pause = self._patience.poll_every
            try:
                in_vain = await self._look(session)
            except TransportError as error:
                session.abort(str(error))
            else:
                self._seen_at = self._clock.monotonic()
                pause = max(pause, _PAUSE_FACTOR * (self._seen_at - started - in_vain))
            await self._clock.sleep(pause)

    @property
    def knows(self) -> bool:
        """Whether its last figures may still be taken for true."""
        if self._connection.session is not None:
            return True
        return self._clock.monotonic() - self._seen_at < self._patience.forget_after

    def lag(self, lane: Lane) -> Lag:
        """Return the cluster's backlog of a subscription, as far as this process can see it.

        Those waiting are counted by the broker; those delivered and not acked, which no AMQP client can ask for, only
        where it was this process that got them. The bound takes a queue for ordered by ``received_at``: a message
        published late may be older, and is recognised by its age when it is delivered.
        """
        held, oldest = 0, None
        for feed, consumer in self._feeds(lane):
            held += consumer.buffer.held(feed)
            found = consumer.buffer.oldest(feed)
            oldest = found if oldest is None or (found is not None and found < oldest) else oldest
        reading = self._readings.get(lane)
        if reading is None:
            return Lag(held, 0)
        if oldest is None and reading.empty < _ENOUGH:
            # Messages wait, or are on the way to this process: their age is unknown.
            oldest = 0
        return Lag(reading.ready + held, oldest)

    def progress(self) -> dict[Lane, Progress]:
        """Return how the consumers of each queue get on, as far as anybody looks.

        Whether those of other processes do is not seen from here: of them only that there are none.
        """
        now = self._clock.now()
        self._windows = {lane: self._windows.get(lane) or Windows() for lane in self._readings}
        for lane, reading in self._readings.items():
            windows, has_own = self._windows[lane], any(True for _ in self._feeds(lane))
            if not reading.ready or (reading.consumers and not has_own):
                windows.forget()
            elif windows.is_due(now):
                seen = Observation(now, reading.delivered + reading.fallen, reading.ready)
                # One of ours may rest, while its subscriber is busy.
                windows.note(self._cluster, seen, is_alive=has_own or reading.consumers > 0)
        return {lane: windows.progress(now) for lane, windows in self._windows.items()}

    def distrust(self, lane: Lane) -> None:
        """Note that messages went back to a queue: until the next looks it counts as holding some of unknown age."""
        reading = self._readings.get(lane)
        if reading is not None:
            self._readings[lane] = reading._replace(empty=0)

    async def _look(self, session: Session) -> float:
        """Look at every queue once; return the seconds that were spent on queues that do not answer.

        Raises
        ------
        TransportError
            The broker does not answer.
        """
        lanes, now, in_vain = self._wanted.lanes(), self._clock.monotonic(), 0.0
        self._readings = {lane: reading for lane, reading in self._readings.items() if lane in lanes}
        self._spared = {lane: until for lane, until in self._spared.items() if lane in lanes and until > now}
        if not lanes:
            await self._greet(session)
        for lane in [lane for lane in lanes if lane not in self._spared]:
            started = self._clock.monotonic()
            try:
                await self._count(session, lane)
            except QueueMissing:
                self._readings.pop(lane, None)
                self._topology.note_missing(lane.destination, lane.subscription)
            except TransportRefused as error:
                self._readings.pop(lane, None)
                _log.debug("%s", error)
            except TransportUnavailable as error:
                # When this queue alone hangs, the connection is kept, and so are the consumers of other queues.
                await self._greet(session)
                _log.warning("%s; other queues do, so its consumers are left alone", error)
                self._readings.pop(lane, None)
                now = self._clock.monotonic()
                self._spared[lane] = now + self._patience.forget_after
                in_vain += now - started
        for consumer in self._consumers():
            consumer.rest_after(self._patience.idle)
        return in_vain

    async def _greet(self, session: Session) -> None:
        """See that the broker answers at all; raises ``TransportError``."""
        await (await session.channel(within=self._patience.answer)).close()

    async def _count(self, session: Session, lane: Lane) -> None:
        channel = await self._open(session)
        looking = channel.raw.queue_declare(queue=queue_of(lane), passive=True)
        doing = localized("looking at {queue}", queue=queue_of(lane))
        ok = await session.call(doing, looking, within=self._patience.answer)
        self._note(lane, int(ok.message_count or 0), int(ok.consumer_count or 0))

    def _note(self, lane: Lane, ready: int, consumers: int) -> None:
        feeds = [feed for feed, _ in self._feeds(lane)]
        delivered = sum(feed.delivered for feed in feeds)
        before = self._readings.get(lane) or _QueueDepth(0, 0, 0, delivered, float("-inf"))
        since = self._clock.monotonic() if before.mute_since is None else before.mute_since
        mute_since = None if ready or consumers else since
        starved = [feed for feed in feeds if feed.is_reading and (ready or not consumers)]
        nothing_came = delivered == before.delivered
        is_sure = mute_since is None or self._is_believed(mute_since, feeds)
        reading = _QueueDepth(
            ready=ready if is_sure else before.ready,
            empty=0 if ready or not is_sure else before.empty + 1,
            starved=before.starved + 1 if starved and nothing_came else 0,
            delivered=delivered,
            mute_since=mute_since,
            consumers=consumers,
            fallen=before.fallen + max(0, before.ready - ready),
        )
        if reading.starved > _ENOUGH:
            reading = reading._replace(starved=0)
            for feed in starved:
                feed.restart("the broker does not deliver what waits: its consumer vanished")
        for feed in feeds:
            feed.nudge()
        self._readings[lane] = reading

    def _is_believed(self, mute_since: float, feeds: Iterable[Feed]) -> bool:
        """Whether to accept that a queue has neither messages nor consumers: not while it should have one of ours."""
        is_lasting = self._clock.monotonic() - mute_since >= self._patience.forget_after
        return is_lasting and not any(feed.is_reading for feed in feeds)

    async def _open(self, session: Session) -> Channel:
        """Return the channel for polling; a missing queue closes it."""
        if self._channel is None or self._channel.is_closed or self._session is not session:
            self._channel = await session.channel(within=self._patience.answer)
            self._session = session
        return self._channel

    def _feeds(self, lane: Lane) -> list[tuple[Feed, RabbitmqConsumer]]:
        return [
            (feed, consumer)
            for consumer in self._consumers()
            for feed in consumer.feeds
            if feed.lane == lane and feed.cluster == self._cluster
        ]
