"""The schedule of jobs: cron expressions in one time zone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from bus.domain.pipelines import MOST_NAME, Job
from bus.errors import ConfigurationError

_FIELDS: Final = 5
_HINT: Final = 'five fields: minute, hour, day of month, month, day of week, such as "*/15 * * * *"'


class Schedule:
    """The times at which jobs are due.

    Parameters
    ----------
    crons
        The expression of each job, empty for one that never runs by itself.
    timezone
        The name of the time zone that they are in.

    Raises
    ------
    ConfigurationError
        There is no such time zone, or an expression is none or never comes true.
    """

    def __init__(self, crons: Mapping[Job, str], timezone: str) -> None:
        try:
            self._zone = ZoneInfo(timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"pipeline.timezone = {timezone!r} is no time zone", hint="UTC, or a name such as Europe/Berlin"
            ) from error
        self.crons: Final = dict(crons)
        for job in self.crons:
            self._check(job)

    def after(self, job: Job, time: dt.datetime) -> dt.datetime | None:
        """Return when a job is due next behind a time, in UTC; None for never."""
        cron = self.crons.get(job, "")
        if not cron:
            return None
        return next(CronSim(cron, time.astimezone(self._zone))).astimezone(dt.UTC)

    def _check(self, job: Job) -> None:
        cron = self.crons[job]
        if len(cron) > MOST_NAME:
            raise ConfigurationError(f"pipeline.{job} is longer than {MOST_NAME} characters", hint=_HINT)
        if cron and len(cron.split()) != _FIELDS:
            raise ConfigurationError(f"pipeline.{job} = {cron!r} has not five fields", hint=_HINT)
        try:
            self.after(job, dt.datetime.now(dt.UTC))
        except CronSimError as error:
            raise ConfigurationError(f"pipeline.{job} = {cron!r}: {error}", hint=_HINT) from error
        except StopIteration as error:
            raise ConfigurationError(f"pipeline.{job} = {cron!r} never comes true", hint=_HINT) from error
