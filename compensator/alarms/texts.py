"""Notification texts of an incident: a line, and below it the next step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from bus.domain.durations import about
from bus.domain.health.channels import Notice
from bus.domain.health.incidents import Incident

_MOST_LINES: Final = 5
_STAYS: Final = frozenset({"dead", "rejected", "spool-damaged"})
"""Rules of what is only not new any more once it is over."""
_TITLES: Final = {
    Notice.OPENED: "{severity}: {what}",
    Notice.WORSE: "worse, {severity} now: {what}",
    Notice.AGAIN: "still {severity}, and nobody has acknowledged it: {what}",
    Notice.OVER: "over after {age}: {what}",
}


class Text(NamedTuple):
    """A title and a body."""

    title: str
    body: str


def text_of(notice: Notice, incident: Incident, pages: str, now: int) -> Text:
    """Return the text of a notification; ``pages`` is the URL of the pages, empty where it is not configured."""
    shown = incident.shown
    title = _TITLES[notice].format(
        severity=incident.severity.value,
        what=shown[0].what,
        age=about((incident.closed_at or now) - incident.opened_at),
    )
    return Text(f"Pier {title}", "\n".join(_lines(notice, incident, pages, now)))


def _lines(notice: Notice, incident: Incident, pages: str, now: int) -> Iterator[str]:
    shown = incident.shown
    # A notice without a body is none for Apprise.
    if notice is Notice.OVER and shown[0].rule not in _STAYS:
        yield "It is not found any more."
    else:
        yield f"What to do{' still' if notice is Notice.OVER else ''}: {shown[0].next_step}."
    if len(shown) > 1:
        yield "From the same cause:"
        yield from (f"- {alarm.what}" for alarm in shown[1:_MOST_LINES])
        left = len(shown) - _MOST_LINES + incident.left_out
        if left > 0:
            yield f"- and {left} more"
    if notice is not Notice.OVER:
        yield f"Since {about(now - shown[0].found_at)}."
    if pages:
        yield f"{pages}/admin/alarms/{incident.id}"


def sign_of_life(pages: str) -> Text:
    """Return the text of a sign of life."""
    return Text(
        "Pier watches", f"This comes as long as alarms are watched for; its silence is an alarm. {pages}".strip()
    )


def trial(by: str, pages: str) -> Text:
    """Return the text of a test notification."""
    return Text("Pier tries this channel", f"{by} has it tried: alarms come this way. {pages}".strip())
