"""Producers with messages that were refused permanently, for status and alarms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bus.domain.health.vitals import RejectedFigures
from bus.domain.times import DAY
from bus.errors import BusError
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.http.problem import is_kept_trying, problem_of
from bus.ports.clock import Clock

_MOST: Final = 100
_SHOWN: Final = 200
_TOLD_FOR: Final = DAY
_ID_TIME: Final = "id_time"  # a producer answers it with a new id


class Rejections:
    """Refused lines of batches, which are what a producer's spool sends, by source and destination.

    Kept in memory for a day after the last of each; of too many the one that was refused longest ago is forgotten.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._found: dict[tuple[str, str], tuple[RejectedFigures, int]] = {}

    def note(self, drafts: Sequence[Draft | BusError], answers: Sequence[AcceptedMessage | BusError]) -> None:
        """Count the permanently refused lines of a batch, which their producer keeps and does not send again."""
        for draft, answer in zip(drafts, answers, strict=True):
            if isinstance(answer, AcceptedMessage) or not isinstance(draft, Draft):
                continue
            said = problem_of(answer)
            if not is_kept_trying(said.status) and said.field != _ID_TIME:
                self._count(draft, said.status, said.detail[:_SHOWN])

    def told(self) -> list[RejectedFigures]:
        """Return the refusals of the last day."""
        oldest = self._clock.now() - _TOLD_FOR
        self._found = {key: found for key, found in self._found.items() if found[1] >= oldest}
        return [figures for figures, _ in self._found.values()]

    def _count(self, draft: Draft, status: int, reason: str) -> None:
        key, now = (draft.source, draft.destination[:_SHOWN]), self._clock.now()
        known = self._found.pop(key, None)
        count, since = (known[0].count, known[0].since) if known is not None else (0, now)
        example = (draft.id or draft.biz_id)[:_SHOWN]
        self._found[key] = (RejectedFigures(*key, status, reason, count + 1, since, now, example), now)
        if len(self._found) > _MOST:
            del self._found[next(iter(self._found))]
