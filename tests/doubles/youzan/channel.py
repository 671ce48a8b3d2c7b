"""A channel of a partition: how far it is, what is in flight with whom, what waits to be sent again."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from tests.doubles.youzan.log import Entry, Log

_MOST_ATTEMPTS = 0xFFFF


class Consumer(Protocol):
    """Who subscribed."""

    @property
    def wants_more(self) -> bool:
        """Whether RDY allows another message now."""

    @property
    def msg_timeout(self) -> float:
        """Seconds until a message that it does not answer for is sent again."""

    def send(self, entry: Entry, attempts: int) -> None:
        """Send one message."""


class NotInFlight(Exception):
    """This consumer does not hold such a message: it never got it, answered already, or too late."""


@dataclass(slots=True)
class Flight:
    """A message that a consumer has and did not answer for."""

    place: int
    consumer: Consumer
    deadline: float


class Channel:
    """Positions in a log, moved by what consumers answer.

    An ordered channel has one message in flight at a time, for the consumer that came first; the others wait for
    that one to leave. All times are seconds of one monotonic clock.
    """

    def __init__(self, name: str, log: Log) -> None:
        self.name = name
        self.ordered = False
        self.consumers: list[Consumer] = []
        self.in_flight: dict[int, Flight] = {}
        self.requeued = 0
        self.timed_out = 0
        self.delivered = 0
        self.finished = 0
        self._log = log
        self._waiting: list[int] = []
        self._deferred: list[tuple[float, int]] = []
        self._attempts: dict[int, int] = {}
        self._held: Counter[Consumer] = Counter()
        self.seek(len(log.entries))

    @property
    def confirmed(self) -> int:
        """The place up to which all is finished."""
        return self._confirmed

    @property
    def depth(self) -> int:
        """How many messages are not finished."""
        return len(self._log.entries) - self._confirmed - len(self._done)

    @property
    def total(self) -> int:
        """How many messages the log has."""
        return len(self._log.entries)

    @property
    def deferred(self) -> int:
        """How many wait for the delay of a REQ."""
        return len(self._deferred)

    def seek(self, place: int) -> None:
        """Go to a place of the log, and forget what is in flight."""
        self._next = self._confirmed = place
        self._done: set[int] = set()
        for store in (self.in_flight, self._held, self._waiting, self._deferred, self._attempts):
            store.clear()

    def join(self, consumer: Consumer) -> None:
        """Add a consumer."""
        self.consumers.append(consumer)

    def leave(self, consumer: Consumer) -> None:
        """Remove a consumer; what it held is sent again, to whoever is left."""
        if consumer in self.consumers:
            self.consumers.remove(consumer)
        for key in [key for key, flight in self.in_flight.items() if flight.consumer is consumer]:
            heapq.heappush(self._waiting, self._land(key).place)
        self._held.pop(consumer, None)

    def held_by(self, consumer: Consumer) -> int:
        """Return how many messages a consumer holds."""
        return self._held[consumer]

    def hand_out(self, now: float) -> None:
        """Send whatever may be sent, in turns."""
        while sum(self._serve(consumer, now) for consumer in self._served()):
            pass

    def finish(self, consumer: Consumer, message: int) -> None:
        """Take a FIN."""
        place = self._landed(consumer, message).place
        self._done.add(place)
        self._attempts.pop(place, None)
        self.finished += 1
        while self._confirmed in self._done:
            self._done.remove(self._confirmed)
            self._confirmed += 1

    def requeue(self, consumer: Consumer, message: int, delay: float, now: float) -> None:
        """Take a REQ; an ordered channel knows no delay and leaves the message to its time-out."""
        if self.ordered and delay > 0:
            return
        place = self._landed(consumer, message).place
        self.requeued += 1
        if delay > 0:
            heapq.heappush(self._deferred, (now + delay, place))
        else:
            heapq.heappush(self._waiting, place)

    def touch(self, consumer: Consumer, message: int, now: float) -> None:
        """Begin the time-out of a message anew."""
        self._flight(consumer, message).deadline = now + consumer.msg_timeout

    def expire(self, now: float) -> bool:
        """Take back what timed out and what was deferred long enough; tell whether there was any."""
        late = [key for key, flight in self.in_flight.items() if flight.deadline <= now]
        for key in late:
            heapq.heappush(self._waiting, self._land(key).place)
        self.timed_out += len(late)
        due = bool(self._deferred) and self._deferred[0][0] <= now
        while self._deferred and self._deferred[0][0] <= now:
            heapq.heappush(self._waiting, heapq.heappop(self._deferred)[1])
        return bool(late) or due

    def _served(self) -> list[Consumer]:
        return self.consumers[:1] if self.ordered else list(self.consumers)

    def _serve(self, consumer: Consumer, now: float) -> bool:
        if not consumer.wants_more or (self.ordered and self.in_flight):
            return False
        place = self._take()
        if place is None:
            return False
        entry = self._log.entries[place]
        self._attempts[place] = min(self._attempts.get(place, 0) + 1, _MOST_ATTEMPTS)
        self.in_flight[entry.id] = Flight(place, consumer, now + consumer.msg_timeout)
        self._held[consumer] += 1
        self.delivered += 1
        consumer.send(entry, self._attempts[place])
        return True

    def _take(self) -> int | None:
        if self._waiting:
            return heapq.heappop(self._waiting)
        if self._next == len(self._log.entries):
            return None
        self._next += 1
        return self._next - 1

    def _flight(self, consumer: Consumer, message: int) -> Flight:
        flight = self.in_flight.get(message)
        if flight is None or flight.consumer is not consumer:
            raise NotInFlight
        return flight

    def _landed(self, consumer: Consumer, message: int) -> Flight:
        self._flight(consumer, message)
        return self._land(message)

    def _land(self, message: int) -> Flight:
        flight = self.in_flight.pop(message)
        self._held[flight.consumer] -= 1
        return flight
