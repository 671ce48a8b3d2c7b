"""What producers say of their local queues, told to whoever looks at the bus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bus.domain.health.vitals import ProducerFigures
from bus.domain.queue_report import parse_queue_report
from bus.domain.times import MINUTE
from bus.errors import BusError
from bus.http.draft import Draft
from bus.ports.clock import Clock
from bus.telemetry import metrics

_KEPT: Final = 1000
_TOLD: Final = 50
_TOLD_FOR: Final = 3 * MINUTE
_LONGEST: Final = 200


class ProducerQueues:
    """The last word of each queue, for some minutes; of too many the one that was heard of longest ago is forgotten."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[str, tuple[ProducerFigures, int]] = {}

    def note(self, header: bytes, named: bytes, drafts: Sequence[Draft | BusError]) -> None:
        """Take in the header of a batch; one that says nothing is ignored.

        Its source is ``named``, else that of its messages.
        """
        report = parse_queue_report(header)
        of_messages = next((draft.source for draft in drafts if isinstance(draft, Draft)), None)
        source = named.decode(errors="replace") or of_messages
        if report is None or source is None:
            return
        self._found.pop(report.id, None)
        figures = ProducerFigures(source[:_LONGEST], report.id, report.records, report.oldest)
        self._found[report.id] = (figures, self._clock.now())
        if len(self._found) > _KEPT:
            del self._found[next(iter(self._found))]

    def told(self) -> list[ProducerFigures]:
        """Return the queues in which something has waited for a minute, those with the oldest records."""
        return [one for one in self._oldest() if one.oldest >= MINUTE]

    def _oldest(self) -> list[ProducerFigures]:
        since = self._clock.now() - _TOLD_FOR
        self._found = {key: found for key, found in self._found.items() if found[1] >= since}
        return sorted((found for found, _ in self._found.values()), key=lambda one: -one.oldest)[:_TOLD]

    def measure(self) -> Callable[[], None]:
        """Return what sets the gauges of these queues."""
        found: dict[str, tuple[int, int]] = {}
        for one in self._oldest():
            records, oldest = found.get(one.source, (0, 0))
            found[one.source] = (records + one.records, max(oldest, one.oldest))

        def fill() -> None:
            for source, (records, oldest) in found.items():
                metrics.PRODUCER_RECORDS.labels(source).set(records)
                metrics.PRODUCER_OLDEST.labels(source).set(oldest / 1000)

        return fill
