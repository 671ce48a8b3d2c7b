"""Producers that a receiver has seen, with the reports of their local queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from bus.domain.health.vitals import ProducerFigures
from bus.domain.queue_report import HEADER, SOURCE, QueueReport, parse_queue_report
from bus.domain.times import DAY, MINUTE
from bus.errors import BusError
from bus.http.draft import Draft
from bus.ports.clock import Clock
from bus.telemetry import metrics

_MOST: Final = 1000
_OF_A_KEY: Final = 500
_KNOWN_FOR: Final = DAY
_WAITING_TOLD: Final = 50
_WAITING_FOR: Final = 3 * MINUTE
_KNOWN_TOLD: Final = 500
_LONGEST: Final = 200
_QUEUE: Final = HEADER.encode()
_SOURCE: Final = SOURCE.encode()
AGENT: Final = b"user-agent"


class _ProducerReport(NamedTuple):
    """The last report of a producer: its agent, its queue if it reported one, and when (ms)."""

    agent: bytes
    queue: QueueReport | None
    messages: int
    at: int


class KnownProducers:
    """Producers by key, source, and queue or program; kept in memory for a day after the last report of each.

    A stranger cannot fill it, nor push the others out of it: of too many, the one of the same key that was seen
    longest ago is forgotten, and beyond ``_MOST`` in all one of the key that has most.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[str, dict[tuple[str, str], _ProducerReport]] = {}
        self._count = 0

    def note_batch(self, headers: Mapping[bytes, bytes], key: str, drafts: Sequence[Draft | BusError]) -> None:
        """Take in who sent a batch; one without a message is ignored.

        Its source is the one that its header names, as of a queue with messages of many, else that of its messages.
        """
        source = next((draft.source for draft in drafts if isinstance(draft, Draft)), None)
        source = _printable(headers.get(_SOURCE, b"").decode(errors="replace")) or source
        if source is not None:
            queue = parse_queue_report(headers[_QUEUE]) if _QUEUE in headers else None
            self.note(key, source, headers.get(AGENT, b""), len(drafts), queue)

    def note(self, key: str, source: str, agent: bytes, messages: int = 1, queue: QueueReport | None = None) -> None:
        """Take in who sent so many messages; ``agent`` is the ``User-Agent``."""
        agent = agent[:_LONGEST]
        name = (source[:_LONGEST], queue.id if queue is not None else agent.decode("latin-1"))
        those = self._of.setdefault(key, {})
        known = those.pop(name, None)
        those[name] = _ProducerReport(
            agent, queue, messages + (known.messages if known is not None else 0), self._clock.now()
        )
        if known is None:
            self._count += 1
            self._make_room(those)

    def told(self) -> list[ProducerFigures]:
        """Return the queues in which something has waited for a minute, those with the oldest records."""
        return [one for one in self._waiting() if one.oldest >= MINUTE]

    def known(self) -> list[ProducerFigures]:
        """Return the producers seen within a day, the last one first."""
        self._forget()
        found = sorted(self._figures(), key=lambda one: -one.seen_at)
        return found[:_KNOWN_TOLD]

    def measure(self) -> Callable[[], None]:
        """Return the function that sets the gauges of these queues."""
        found: dict[str, tuple[int, int]] = {}
        for one in self._waiting():
            records, oldest = found.get(one.source, (0, 0))
            found[one.source] = (records + one.records, max(oldest, one.oldest))

        def fill() -> None:
            for source, (records, oldest) in found.items():
                metrics.PRODUCER_RECORDS.labels(source).set(records)
                metrics.PRODUCER_OLDEST.labels(source).set(oldest / 1000)

        return fill

    def _make_room(self, those: dict[tuple[str, str], _ProducerReport]) -> None:
        fullest = those if len(those) > _OF_A_KEY else None
        if fullest is None and self._count > _MOST:
            fullest = max(self._of.values(), key=len)
        if fullest is not None:
            del fullest[next(iter(fullest))]
            self._count -= 1

    def _forget(self) -> None:
        since = self._clock.now() - _KNOWN_FOR
        for those in self._of.values():
            for name in [name for name, heard in those.items() if heard.at < since]:
                del those[name]
        self._of = {key: those for key, those in self._of.items() if those}
        self._count = sum(map(len, self._of.values()))

    def _waiting(self) -> list[ProducerFigures]:
        since = self._clock.now() - _WAITING_FOR
        found = (one for one in self._figures() if one.id and one.seen_at >= since)
        return list(islice(sorted(found, key=lambda one: -one.oldest), _WAITING_TOLD))

    def _figures(self) -> list[ProducerFigures]:
        return [
            ProducerFigures(
                source,
                heard.queue.id if heard.queue is not None else "",
                heard.queue.records if heard.queue is not None else 0,
                heard.queue.oldest if heard.queue is not None else 0,
                agent=_printable(heard.agent.decode("latin-1")),
                key=key,
                seen_at=heard.at,
                messages=heard.messages,
            )
            for key, those in self._of.items()
            for (source, _), heard in those.items()
        ]


def _printable(text: str) -> str:
    """Return the text of a stranger in a form that a terminal may show."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
