"""Values of the command line, converted to the arguments of jobs."""

from __future__ import annotations

import datetime as dt
from typing import Final

import typer

from bus.domain.durations import parse_duration
from pipeline.jobs.reconcile import Plan
from pipeline.transforms.hearing import Patience

_EPOCH: Final = dt.datetime.fromtimestamp(0, dt.UTC)


def plan_of(since: str | None, before: str | None, allowance: str, horizon: str, *, complete: bool) -> Plan:
    """Return the plan of a run of ``reconcile`` that begins now; times as RFC 3339. Raises a usage error.

    Both ends of a range are rounded up to a whole minute.
    """
    patience = Patience(_seconds(allowance, "--allowance"), _seconds(horizon, "--horizon"))
    # What a run writes is found by this time in milliseconds, so it must not have a fraction of one.
    now = _EPOCH + dt.timedelta(milliseconds=(dt.datetime.now(dt.UTC) - _EPOCH) // dt.timedelta(milliseconds=1))
    return Plan(now, _minute(moment_of(since)), _minute(moment_of(before)), patience, complete)


def moment_of(text: str | None) -> dt.datetime | None:
    """Return a time that is written as RFC 3339; None for none."""
    return None if text is None else dt.datetime.fromisoformat(text)


def _minute(time: dt.datetime | None) -> dt.datetime | None:
    return None if time is None else time + (_EPOCH - time) % dt.timedelta(minutes=1)


def _seconds(text: str, option: str) -> int:
    try:
        return round(parse_duration(text) / 1000)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no duration such as 10m", param_hint=option) from error
