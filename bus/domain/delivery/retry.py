"""The time of the next attempt, and the end of retries."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from bus.domain.durations import format_duration, parse_duration
from bus.domain.times import DAY
from bus.localized_text import localized

JITTER: Final = 0.2
RETRY_AFTER_CAP: Final = DAY
_DIGITS: Final = 9
DEFAULT_SCHEDULE: Final = ("5s", "30s", "2m", "10m", "1h", "3h", "8h", "12h")


# Answers in the 400s that another try may change (RFC 9110, section 15.5; RFC 8470 for 425, RFC 6585 for 429).
_PASSING: Final = frozenset({408, 425, 429})
_GONE: Final = 410
MOST_DEAD_ON: Final = 16


def check_dead_on(statuses: Iterable[int]) -> tuple[int, ...]:
    """Return statuses of which one ends a delivery, each once and in order; raises ``ValueError`` for any other.

    Failures that pass by themselves, and 410, which pauses the subscription, cannot be among them.
    """
    found = tuple(sorted(set(statuses)))
    for status in found:
        if not 400 <= status < 600 or status in _PASSING or status == _GONE:  # noqa: PLR2004 - the 400s and 500s
            raise ValueError(
                localized(
                    "{status} cannot be final: give statuses of 400 to 599, but 408, 410, 425 and 429", status=status
                )
            )
    if len(found) > MOST_DEAD_ON:
        raise ValueError(localized("at most {most} statuses can be final", most=MOST_DEAD_ON))
    return found


def is_permanent(status: int | None) -> bool:
    """Whether an answer says that the request is refused as it is, so that sending it again does not help."""
    return status is not None and 400 <= status < 500 and status not in _PASSING  # noqa: PLR2004 - the 400s


class Schedule(msgspec.Struct, frozen=True, tag="schedule"):
    """Explicit waits in milliseconds after the first, second, ... failure; the last repeats."""

    waits: tuple[int, ...]

    def wait(self, tries: int) -> int:
        """Return the wait after the ``tries``-th failure (from 1), without jitter."""
        return self.waits[min(tries, len(self.waits)) - 1]


class Exponential(msgspec.Struct, frozen=True, tag="exponential"):
    """``first`` times ``factor`` to the power of the failures so far, at most ``max`` (milliseconds)."""

    first: int
    factor: float
    max: int

    def wait(self, tries: int) -> int:
        """Return the wait after the ``tries``-th failure (from 1), without jitter."""
        wait = float(self.first)
        for _ in range(tries - 1):
            wait *= self.factor
            if wait >= self.max:
                break
        return min(round(wait), self.max)


class RetryPolicy(msgspec.Struct, frozen=True):
    """The waits, and the limits by age (milliseconds) and by count (None: no limit)."""

    waits: Schedule | Exponential = Schedule(tuple(parse_duration(text) for text in DEFAULT_SCHEDULE))
    max_age: int = 7 * DAY
    max_attempts: int | None = None

    def next_due(self, *, tries: int, since: int, now: int, noise: float, retry_after: int | None = None) -> int | None:
        """Return when to try again, or None when the delivery is dead.

        Parameters
        ----------
        tries
            Failures in this generation, this one included.
        since
            When this generation began, in milliseconds since the epoch.
        noise
            Uniform in [0, 1): spreads the wait by +-20 %, so that failures of one moment do not return as one.
        retry_after
            Wait requested by the subscriber, in milliseconds from now; capped, and never shortens the wait.
        """
        if self.max_attempts is not None and tries >= self.max_attempts:
            return None
        if now - since >= self.max_age:
            return None
        wait = round(self.waits.wait(tries) * (1 - JITTER + 2 * JITTER * noise))
        if retry_after is not None:
            wait = max(wait, min(retry_after, RETRY_AFTER_CAP))
        return min(now + wait, max(since + self.max_age, now))


def parse_waits(form: list[str] | dict[str, object]) -> Schedule | Exponential:
    """Read the contract's ``retry`` field: a list of waits, or ``{"first", "factor", "max"}``.

    Raises
    ------
    ValueError
        The form is empty, has another field, or a value that is not a duration.
    """
    if isinstance(form, list):
        if not form:
            raise ValueError(localized('retry needs at least one wait, such as ["5s", "30s"]'))
        return Schedule(tuple(parse_duration(text) for text in form))
    if set(form) != {"first", "factor", "max"}:
        raise ValueError(localized('the exponential form of retry is {"first": "5s", "factor": 3, "max": "12h"}'))
    factor = float(str(form["factor"]))
    if not 1 <= factor <= 100:  # noqa: PLR2004 - a factor outside is a slip of the keyboard
        raise ValueError(localized("retry.factor must be from 1 to 100"))
    first, longest = parse_duration(str(form["first"])), parse_duration(str(form["max"]))
    if first < 1 or longest < first:
        raise ValueError(localized("retry.first must be above zero and retry.max not below it"))
    return Exponential(first, factor, longest)


def format_waits(waits: Schedule | Exponential) -> list[str] | dict[str, object]:
    """Undo ``parse_waits``."""
    if isinstance(waits, Schedule):
        return [format_duration(wait) for wait in waits.waits]
    return {"first": format_duration(waits.first), "factor": waits.factor, "max": format_duration(waits.max)}


def parse_retry_after(value: str | None, now: int, date: str | None = None) -> int | None:
    """Read a Retry-After header (RFC 9110 section 10.2.3) as milliseconds from ``now``, capped; None for garbage.

    ``date`` is the same answer's Date header: one clock made both, so that what is wrong with ours does not matter.
    """
    if not value:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:_DIGITS]) * 1000, RETRY_AFTER_CAP)
    moment = _time_of(text)
    if moment is None:
        return None
    answered_at = _time_of(date) if date else None
    return min(max(0, moment - (now if answered_at is None else answered_at)), RETRY_AFTER_CAP)


def _time_of(date: str) -> int | None:
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:  # "-0000": the time is in UTC
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
