"""The route of the current activity of the dispatchers for a subscription."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from admin.deps import Reader, ServicesDep
from admin.models.base import Code
from admin.models.responses.activity import ActivityView, RecentAttemptView
from bus.domain.health.vitals import RecentAttempt
from bus.domain.times import format_time

router = APIRouter(prefix="/destinations/{code}/subscriptions/{name}", tags=["subscriptions"])


@router.get("/activity")
async def get_activity(
    code: Code, name: str, services: ServicesDep, _: Reader, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> ActivityView:
    """Return the current activity of the dispatchers for a subscription, and their last attempts.

    ``permits`` are the requests at once that the subscription allows, ``in_flight`` those under way, ``held`` the
    deliveries that dispatchers have in memory, ``rate_wait_seconds`` for how long its rate holds them yet. Each
    dispatcher remembers its last ten attempts until it is started again; ``silent`` is how many did not answer within
    2 s.
    """
    subscription = services.context.registry.subscription(code, name)
    told = await services.introspection.activities.of(code, name)
    return ActivityView(
        permits=subscription.max_concurrency,
        in_flight=sum(one.in_use for one in told.permits),
        held=sum(one.waiting for one in told.permits),
        rate=subscription.rate,
        rate_wait_seconds=max((one.rate_wait for one in told.permits), default=0.0),
        silent=told.silent,
        attempts=[_view(attempt) for attempt in told.attempts[:limit]],
    )


def _view(attempt: RecentAttempt) -> RecentAttemptView:
    return RecentAttemptView(
        message_id=attempt.message_id,
        n=attempt.n,
        started_at=format_time(attempt.started_at),
        duration_ms=round(attempt.duration, 3),
        status_code=attempt.status_code,
        error=attempt.error or None,
        status=attempt.status,
        node=attempt.node,
    )
