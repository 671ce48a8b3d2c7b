"""The summary of the messages of a search, by attribute and by time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from bus.domain.delivery.delivery import SEVERITY, Status
from bus.domain.identity import id_time
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY, HOUR, MINUTE, SECOND
from bus.domain.tracing.trace import DeliveryTrace, Trace, failure_of, is_chosen, last_attempt

MOST_PERIODS: Final = 60
_MOST_VALUES: Final = 1_000  # of one attribute, so that values unique to each message take no memory
_MOST_HEADERS: Final = 30
_LONGEST_VALUE: Final = 512  # characters; a header may have 8 KB, and a longer value is of no use to a reader
_SHOWN: Final = 5
_LEAST_SHARE: Final = 0.1
_STEPS: Final = (
    *(count * SECOND for count in (1, 5, 15)),
    *(count * MINUTE for count in (1, 5, 15)),
    *(count * HOUR for count in (1, 3, 6, 12)),
    *(count * DAY for count in (1, 7, 30)),
)


class Attribute(NamedTuple):
    """Attribute of a message; ``name`` is a header's, empty for all others."""

    of: str
    name: str = ""


class SharedAttribute(NamedTuple):
    """An attribute with its most frequent values, each with how many messages have it, and how many have others."""

    attribute: Attribute
    values: list[tuple[str, int]]
    others: int


class Period(NamedTuple):
    """Messages made in one period, by state; ``start`` in milliseconds since the epoch."""

    start: int
    states: Mapping[Status, int]


class Summary(NamedTuple):
    """Number of messages, in periods of ``step`` milliseconds by the time they were made, and their common values."""

    messages: int
    since: int
    before: int
    step: int
    periods: list[Period]
    shared: list[SharedAttribute]


class SummaryBuilder:
    """Counts the messages of a selection, of which each is added once."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._made: list[tuple[int, Status]] = []
        self._values: defaultdict[Attribute, Counter[str]] = defaultdict(Counter)

    @property
    def messages(self) -> int:
        """Number of messages added."""
        return len(self._made)

    def add(self, trace: Trace) -> None:
        """Count a message; its state is the worst of the deliveries that the selection asks for."""
        chosen = self._chosen(trace)
        states = (delivery.status for delivery in chosen.values())
        self._made.append((id_time(trace.id), max(states, key=SEVERITY.__getitem__, default=trace.status)))
        for attribute, values in _attributes(trace, chosen):
            if getattr(self._selection, attribute.of, None) is None:  # else all have what was asked for
                self._count(attribute, values)

    def result(self, since: int | None, before: int) -> Summary:
        """Return the summary of a range (ms), which begins with the oldest message where ``since`` is None.

        It ends with the newest at the earliest: the clock that made an id may be ahead.
        """
        start = since if since is not None else min((at for at, _ in self._made), default=before - 1)
        end = max(before, *(at + 1 for at, _ in self._made)) if self._made else before
        step = next((step for step in _STEPS if (end - start) / step <= MOST_PERIODS), _STEPS[-1])
        periods: defaultdict[int, Counter[Status]] = defaultdict(Counter)
        for at, status in self._made:
            periods[at - at % step][status] += 1
        found = [Period(at, periods[at]) for at in sorted(periods)]
        return Summary(len(self._made), start - start % step, end, step, found, list(self._shared()))

    def _chosen(self, trace: Trace) -> Mapping[str, DeliveryTrace]:
        selection = self._selection
        if selection.subscription is None and not selection.asks_how_it_went:
            return trace.deliveries
        return {
            name: delivery
            for name, delivery in trace.deliveries.items()
            if selection.subscription in (None, name) and is_chosen(delivery, selection)
        }

    def _count(self, attribute: Attribute, values: Iterable[str]) -> None:
        if attribute not in self._values and attribute.name and self._headers() >= _MOST_HEADERS:
            return
        counter = self._values[attribute]
        for value in set(values):
            if value in counter or (len(counter) < _MOST_VALUES and len(value) <= _LONGEST_VALUE):
                counter[value] += 1

    def _headers(self) -> int:
        return sum(bool(attribute.name) for attribute in self._values)

    def _shared(self) -> Iterator[SharedAttribute]:
        """Yield the values that at least some messages share; a message may have several values of one attribute."""
        for attribute, counter in self._values.items():
            common = [(value, count) for value, count in counter.most_common(_SHOWN) if count > 1]
            least = max(2.0, self.messages * _LEAST_SHARE)
            if common and common[0][1] >= least:
                yield SharedAttribute(attribute, common, max(0, self.messages - sum(count for _, count in common)))


def _attributes(trace: Trace, chosen: Mapping[str, DeliveryTrace]) -> Iterator[tuple[Attribute, Iterable[str]]]:
    yield Attribute("destination"), (trace.destination,)
    yield Attribute("subscription"), chosen
    yield Attribute("signature"), filter(None, map(failure_of, chosen.values()))
    last = [attempt for delivery in chosen.values() if (attempt := last_attempt(delivery)) is not None]
    yield Attribute("node"), [one.node for one in last if one.node]
    if trace.message is not None:
        yield Attribute("source"), filter(None, (trace.message.source,))
        yield Attribute("key"), filter(None, (trace.message.key,))
        yield Attribute("content_type"), (trace.message.content_type,)
        for name, value in trace.message.headers.items():
            yield Attribute("header", name.lower()), (value,)
