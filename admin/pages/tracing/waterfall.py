"""A picture of the time that a delivery took: transport, each attempt, and the pauses between them.

Attempts are to one scale, so that a slow one looks slow; pauses are drawn shorter than they were. Only what was
measured has a colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from admin.models.responses.messages import AttemptView, DeliveryView
from admin.pages.parts.tags import tag
from admin.pages.parts.times import took, waited
from admin.pages.viewer import Viewer
from bus.domain.delivery.delivery import FINAL
from bus.domain.times import parse_time
from bus.localized_text import N_

PHASES: Final = {
    "queue": N_("queue"),
    "dns": N_("DNS"),
    "connect": N_("connect"),
    "tls": N_("TLS"),
    "send": N_("send"),
    "first_byte": N_("wait for the answer"),
    "receive": N_("receive"),
}
_UNTOLD: Final = "untold"
_LEAST: Final = 0.5
"""Milliseconds of an attempt that may belong to no phase: what clocks and rounding make."""
_WAIT, _PAUSE, _DUE = "way", "pause", "due"
_FIRST: Final = 6
_LAST: Final = 6
_ERROR: Final = 400
_ATTEMPT_PIXELS: Final = 180
_LEAST_PIXELS: Final = 16


class Pause(NamedTuple):
    """A time in which nothing was attempted: of what kind, and how long, in milliseconds."""

    kind: str
    length: float


class TimedAttempt(NamedTuple):
    """An attempt, with the milliseconds of each phase that was measured, and of what belongs to none."""

    attempt: AttemptView
    phases: list[tuple[str, float]]
    untold: float

    @property
    def length(self) -> float:
        """All of it, in milliseconds."""
        return sum(length for _, length in self.phases) + self.untold


class LeftOut(NamedTuple):
    """So many attempts that are not drawn."""

    attempts: int


Part = Pause | TimedAttempt | LeftOut


def parts_of(delivery: DeliveryView, received_at: str | None) -> list[Part]:
    """Return the parts of a delivery's time, in order.

    Parameters
    ----------
    received_at
        When the bus took the message; None where that is not known.
    """
    attempts = delivery.attempts
    left_out = len(attempts) - _FIRST - _LAST
    parts = [*_spent(attempts[:_FIRST] if left_out > 0 else attempts, parse_time(received_at) if received_at else None)]
    if left_out > 0:
        parts += [LeftOut(left_out), *_spent(attempts[-_LAST:], None)]
    if attempts and delivery.due_at and delivery.status not in FINAL:
        parts.append(Pause(_DUE, max(0, parse_time(delivery.due_at) - _end(attempts[-1]))))
    return parts


def _spent(attempts: Sequence[AttemptView], before: int | None) -> Iterator[Part]:
    kind = _WAIT
    for attempt in attempts:
        made = _made(attempt)
        began = parse_time(attempt.taken_at or attempt.started_at)
        if before is not None and began > before:
            yield Pause(kind, began - before)
        yield made
        before, kind = _end(attempt), _PAUSE


def _end(attempt: AttemptView) -> int:
    return parse_time(attempt.started_at) + round(attempt.duration_ms)


def _made(attempt: AttemptView) -> TimedAttempt:
    phases = [(name, max(0.0, attempt.phases[name])) for name in PHASES if name in attempt.phases]
    told = sum(length for name, length in phases if name != "queue")
    untold = attempt.duration_ms - told
    return TimedAttempt(attempt, phases, untold if untold > _LEAST else 0.0)


def drawn(parts: Sequence[Part]) -> set[str]:
    """Return the names of the phases that these have, with ``untold``."""
    made = [part for part in parts if isinstance(part, TimedAttempt)]
    return {name for one in made for name, _ in one.phases} | ({_UNTOLD} if any(one.untold for one in made) else set())


def waterfall(viewer: Viewer, parts: Sequence[Part], *, label: str) -> None:
    """Draw them side by side; a button's ``data-attempt`` is the id of its attempt."""
    longest = max((part.length for part in parts if isinstance(part, TimedAttempt)), default=0.0)
    with tag("div", "pier-fall", tabindex="0", role="group", aria_label=label):
        for part in parts:
            if isinstance(part, Pause):
                _pause(viewer, part)
            elif isinstance(part, TimedAttempt):
                _attempt(viewer, part, longest)
            else:
                tag("span", "pier-fall-more pier-quiet", viewer.t("{count} more", count=part.attempts))


def _pause(viewer: Viewer, pause: Pause) -> None:
    t, long = viewer.t, waited(pause.length / 1000) if pause.length >= 1000 else took(pause.length)  # noqa: PLR2004
    said = {
        _WAIT: t("{time} until a dispatcher took it", time=long),
        _PAUSE: t("{time} until the next attempt", time=long),
        _DUE: t("the next attempt is {time} after this one", time=long),
    }[pause.kind]
    width = 30 + 9 * math.log2(1 + pause.length / 1000)
    tag("span", f"pier-fall-pause pier-fall-{pause.kind}", long, title=said, style=f"min-width: {width:.0f}px")


def _attempt(viewer: Viewer, made: TimedAttempt, longest: float) -> None:
    t, attempt = viewer.t, made.attempt
    width = max(_LEAST_PIXELS, _ATTEMPT_PIXELS * made.length / longest) if longest else _LEAST_PIXELS
    failed = attempt.status_code is None or attempt.status_code >= _ERROR or bool(attempt.error)
    answer = t("no answer") if attempt.status_code is None else str(attempt.status_code)
    where = [f"{t(PHASES[name])} {took(length)}" for name, length in made.phases]
    where += [f"{t('not measured')} {took(made.untold)}"] if made.untold else []
    head = t("Attempt {n}: {answer} after {time}", n=attempt.n, answer=answer, time=took(attempt.duration_ms))
    said = f"{head} ({', '.join(where)})" if where else head
    with tag("button", "pier-fall-attempt", type="button", title=said, aria_label=said, data_attempt=attempt.id):
        with tag("span", "pier-fall-bar", style=f"width: {width:.0f}px"):
            for name, length in made.phases:
                tag("i", f"pier-phase-{name}", style=_grown(length))
            if made.untold or not made.phases:
                tag("i", "pier-phase-untold", style=_grown(made.untold or 1.0))
        tag("span", f"pier-{'bad' if failed else 'good'}", f"#{attempt.n} {answer}")


def _grown(length: float) -> str:
    """Return the style of a part of a bar; in microseconds, since parts that sum up to less than 1 do not fill it."""
    return f"flex-grow: {max(1.0, length * 1_000):.0f}"


def legend(viewer: Viewer, names: set[str]) -> None:
    """Show the legend: the colour of each of these phases."""
    with tag("p", "pier-row-of pier-legend pier-quiet"):
        for name, title in (*PHASES.items(), (_UNTOLD, N_("not measured"))):
            if name in names:
                with tag("span"):
                    tag("i", f"pier-phase-{name}", aria_hidden="true")
                    tag("span", "", viewer.t(title))
        tag("span", "", viewer.t("Attempts are to scale, pauses are not."))
