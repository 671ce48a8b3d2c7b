"""Publishing to a destination: on its transport, else on the fallback to a dispatcher; each attempt is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import Counter

from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.message import Message
from bus.domain.tracing import events as events_of
from bus.ports.clock import Clock
from bus.ports.events import Events
from bus.ports.spans import NO_SPANS, Spans
from bus.ports.transport import OutgoingMessage, Publisher
from bus.telemetry import labels, metrics
from bus.transports.router import TransportRouter


class DestinationPublisher:
    """Publishes messages on their destination's transport, and on the fallback those that it does not accept."""

    def __init__(self, router: TransportRouter, events: Events, clock: Clock, spans: Spans = NO_SPANS) -> None:
        self._router = router
        self._events = events
        self._clock = clock
        self._spans = spans
        self._accepted: dict[str, Counter] = {}

    def count(self, message: Message) -> None:
        """Count and trace a message that was accepted right into the queue of the direct transport."""
        name = TransportName.DIRECT
        counter = self._accepted.get(message.destination)
        if counter is None:
            told = (*labels.DESTINATIONS.of(message.destination), name)
            counter = self._accepted[message.destination] = metrics.PUBLISHED.labels(*told, "confirmed")
        counter.inc()
        self._events.emit(events_of.published(message, name, confirmed=True, at=self._clock.now()))

    async def publish(
        self, destination: Destination, batch: Sequence[OutgoingMessage], held: Callable[[Sequence[int]], None]
    ) -> list[bool | None]:
        """Return for each message, in order, whether it is held durably; None when it only lacks capacity for now.

        ``held`` is called after each attempt with the numbers of the messages held since: the next attempt may be slow.
        """
        transport, fallback = self._router.of(destination), self._router.fallback
        if destination.ordering is Ordering.STRICT:
            # A group of brokers has them since before they were accepted; there is nothing that may go elsewhere.
            held(range(len(batch)))
            if transport is not fallback:
                await self._publish_on(transport, destination.code, batch)
            return [True] * len(batch)
        if destination.ordering is not Ordering.NONE and transport is not fallback:
            return await self._publish_in_order(transport, destination, batch, held)
        confirmed = await self._publish_on(transport, destination.code, batch)
        held([n for n, done in enumerate(confirmed) if done])
        left = [n for n, done in enumerate(confirmed) if not done]
        if left and transport is not fallback:
            # What no broker takes goes straight to a dispatcher.
            again = await self._publish_on(fallback, destination.code, [batch[n] for n in left])
            held([n for n, done in zip(left, again, strict=True) if done])
            for n, done in zip(left, again, strict=True):
                confirmed[n] = done
        return confirmed

    async def _publish_in_order(
        self,
        transport: Publisher,
        destination: Destination,
        batch: Sequence[OutgoingMessage],
        held: Callable[[Sequence[int]], None],
    ) -> list[bool | None]:
        """Publish so that of each key one message is under way at a time, and none behind one that is not held.

        A broker confirms each message by itself, and may refuse one and take the next. Nothing goes past it to a
        dispatcher, where it would overtake what a broker has.
        """
        answers: list[bool | None] = [None] * len(batch)
        keys = [destination.ordering.key_of(item.message.key) for item in batch]
        left, stuck = list(range(len(batch))), set[str]()
        while left:
            wave, taken, rest = [], set[str](), []
            for n in left:
                key = keys[n]
                if key is None or key not in taken | stuck:
                    wave.append(n)
                    taken |= {key} if key is not None else set()
                elif key not in stuck:
                    rest.append(n)
            if not wave:
                break
            confirmed = await self._publish_on(transport, destination.code, [batch[n] for n in wave])
            held([n for n, done in zip(wave, confirmed, strict=True) if done])
            for n, done in zip(wave, confirmed, strict=True):
                answers[n] = done
                if not done and (key := keys[n]) is not None:
                    stuck.add(key)
            left = rest
        return answers

    async def _publish_on(self, publisher: Publisher, code: str, batch: Sequence[OutgoingMessage]) -> list[bool | None]:
        """Publish, count and trace.

        A message that a transport has no capacity for now did not fail: it is neither counted nor traced. Otherwise a
        destination that is paused for days would have a stream of failures.
        """
        started = self._clock.now()
        confirmed = list(await publisher.publish(batch))
        told = (*labels.DESTINATIONS.of(code), publisher.name)
        metrics.PUBLISHED.labels(*told, "confirmed").inc(sum(done is True for done in confirmed))
        if failed := sum(done is False for done in confirmed):
            metrics.PUBLISHED.labels(*told, "failed").inc(failed)
        now = self._clock.now()
        for item, done in zip(batch, confirmed, strict=True):
            if done is not None:
                self._events.emit(events_of.published(item.message, publisher.name, confirmed=done, at=now))
                self._spans.published(item.message, publisher.name, confirmed=done, started=started)
        return confirmed
