"""Disks: full ones, and those that will be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from bus.domain.durations import about
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.facts import Disk, Facts
from bus.domain.health.rulebook import HYSTERESIS, Rulebook
from bus.domain.health.vitals import DiskFigures
from bus.domain.sizes import format_size
from bus.domain.times import HOUR
from bus.localized_text import LocalizedText, localized

_SOON: Final = 24 * HOUR
_VERY_SOON: Final = 2 * HOUR
_MUCH_LEFT: Final = 0.4
"""From which share on only a disk that is full very soon counts, as in Prometheus's node-mixin: an hour is a weak
basis to forecast a day."""


def disks(facts: Facts, book: Rulebook, active: Collection[str]) -> Iterator[Alarm]:
    """Yield the disks that are nearly full or will be, each once, however many directories are on it."""
    found: dict[str, list[Disk]] = {}
    for disk in facts.disks:
        found.setdefault(_subject(disk), []).append(disk)
    for subject, those in found.items():
        alarm = _alarm(subject, those, book, active)
        if alarm is not None:
            yield alarm


def is_full(figures: DiskFigures) -> bool:
    """Whether new messages are refused because the disk is full."""
    return figures.free < figures.reserve


def cause_of(disk: Disk) -> str:
    """Return the name of a disk as a cause of alarms."""
    return f"disk:{_subject(disk)}"


def _subject(disk: Disk) -> str:
    return f"{disk.figures.device}@{disk.host}"


def _alarm(subject: str, those: Sequence[Disk], book: Rulebook, active: Collection[str]) -> Alarm | None:
    # The report of the process that was there first counts, so that two with one disk do not take turns.
    disk = min(those, key=lambda one: (not is_full(one.figures), one.figures.path, one.owner))
    forecasts = [one.figures.full_in for one in those if one.figures.full_in is not None]
    judged = _judged(disk, min(forecasts, default=None), book, was=f"disk:{subject}" in active)
    if judged is None:
        return None
    severity, what = judged
    step = localized("make room, or move data to a larger disk; see what waits there: bus spool ls")
    link = f"processes/{disk.owner}"
    return Alarm("disk", severity, what, step, link, None, subject=subject, cause=cause_of(disk))


def _judged(disk: Disk, full_in: int | None, book: Rulebook, *, was: bool) -> tuple[Severity, LocalizedText] | None:
    figures = disk.figures
    where = {"path": figures.path, "host": disk.host, "free": format_size(figures.free)}
    if is_full(figures):
        what = localized(
            "the disk of {path} on {host} is full but for {free}: new messages are refused below {reserve}, which are "
            "kept for outcomes; nothing stored is lost",
            reserve=format_size(figures.reserve),
            **where,
        )
        return Severity.CRITICAL, what
    if full_in is not None and _is_soon(full_in, figures.left, slack=HYSTERESIS if was else 1):
        what = localized(
            "the disk of {path} on {host} has {free} left, and is full in {time} if it goes on as of late",
            time=about(full_in),
            **where,
        )
        return Severity.CRITICAL if full_in <= _VERY_SOON else Severity.WARNING, what
    if book.is_short("disk", figures.left, was=was):
        share = f"{figures.left:.0%}"
        return Severity.WARNING, localized(
            "the disk of {path} on {host} has {free} left, {share}", share=share, **where
        )
    return None


def _is_soon(full_in: int, left: float, *, slack: float) -> bool:
    return full_in <= (_SOON if left < _MUCH_LEFT / slack else _VERY_SOON) / slack
