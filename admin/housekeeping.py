"""The hourly deletion of old audit entries, sessions, links of edits and bulk resends."""

from __future__ import annotations

import logging
from typing import Final

from admin.repair.jobs import JobRepository
from admin.services import AdminServices
from bus.domain.times import DAY
from bus.errors import StoreError

RESENDS_KEPT: Final = 1_000
RESENDS_KEPT_FOR: Final = 30 * DAY
_UNWRITTEN_FOR: Final = 3_600_000
_EVERY: Final = 3600.0
_log = logging.getLogger(__name__)


async def keep_house(services: AdminServices) -> None:
    """Drop data past its retention, every hour until cancelled; several processes may do it at the same time."""
    context = services.context
    while True:
        try:
            await services.audit.expire(context.settings.audit_retention_days)
            await services.sessions.expire()
            await services.editor.expire()
            await clear_resends(services.jobs, context.clock.now())
        except* StoreError as error:
            _log.warning("what is past its retention is dropped in an hour: %s", error.exceptions[0])
        await context.clock.sleep(_EVERY)


async def clear_resends(repository: JobRepository, now: int) -> int:
    """Drop finished bulk resends that are too old or too many; return how many.

    A job whose items an unfinished job resends again stays.
    """
    jobs = await repository.all()
    needed = {job.rerun_of for job in jobs if not job.is_done}
    finished = [job for job in jobs if job.is_done and job.id not in needed]
    too_many = len(finished) - RESENDS_KEPT
    dropped = [
        job
        for number, job in enumerate(finished)
        if number < too_many or (job.finished_at or job.created_at) < now - RESENDS_KEPT_FOR
    ]
    orphans = await repository.orphans(now - _UNWRITTEN_FOR, {job.id for job in jobs})
    for job_id in (*(job.id for job in dropped), *orphans):
        await repository.drop(job_id)
    return len(dropped)
