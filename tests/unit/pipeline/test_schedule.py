"""Due times of jobs: cron expressions, in a time zone, also where the clock is put forward and back."""

from __future__ import annotations

import datetime as dt

import pytest

from bus.domain.pipelines import Job
from bus.errors import ConfigurationError
from pipeline.serving.schedule import Schedule


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("cron", "timezone", "now", "due"),
    [
        ("*/15 * * * *", "UTC", "2026-11-27T12:00:00+00:00", "2026-11-27T12:15:00+00:00"),
        ("*/15 * * * *", "UTC", "2026-11-27T12:14:59.999+00:00", "2026-11-27T12:15:00+00:00"),
        ("40 0 * * 0", "UTC", "2026-11-27T12:00:00+00:00", "2026-11-29T00:40:00+00:00"),
        ("30 3 * * *", "Asia/Shanghai", "2026-11-27T12:00:00+00:00", "2026-11-27T19:30:00+00:00"),
        # An hour that there is not, and one that there is twice.
        ("30 2 * * *", "Europe/Berlin", "2027-03-27T12:00:00+00:00", "2027-03-28T01:00:00+00:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00+00:00", "2026-10-25T00:30:00+00:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00+00:00", "2026-10-26T01:30:00+00:00"),
    ],
)
def test_a_job_is_due_at_its_next_time(cron: str, timezone: str, now: str, due: str) -> None:
    assert Schedule({Job.RECONCILE: cron}, timezone).after(Job.RECONCILE, at(now)) == at(due)


def test_a_job_without_an_expression_is_never_due() -> None:
    schedule = Schedule({Job.ARCHIVE: ""}, "UTC")
    assert schedule.after(Job.ARCHIVE, at("2026-11-27T12:00:00+00:00")) is None
    assert schedule.after(Job.JUDGE, at("2026-11-27T12:00:00+00:00")) is None


@pytest.mark.parametrize(
    ("cron", "timezone", "said"),
    [
        ("*/15 * * *", "UTC", "pipeline.reconcile = '*/15 * * *' has not five fields"),
        ("* * * * * *", "UTC", "has not five fields"),
        ("61 * * * *", "UTC", "Bad minute"),
        ("now", "UTC", "has not five fields"),
        ("0 0 31 2 *", "UTC", "pipeline.reconcile"),
        (",".join(map(str, range(60))) + " * * * *" + " " * 60, "UTC", "is longer than 200 characters"),
        ("0 * * * *", "Mars/Olympus", "pipeline.timezone = 'Mars/Olympus' is no time zone"),
        ("0 * * * *", "../etc/passwd", "is no time zone"),
        ("0 * * * *", "", "is no time zone"),
    ],
)
def test_what_is_no_time_is_refused_with_what_is_one(cron: str, timezone: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Schedule({Job.RECONCILE: cron}, timezone)
    assert said in str(refused.value)
    assert refused.value.hint
