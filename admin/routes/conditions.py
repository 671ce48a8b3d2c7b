"""The route of conditions: how subscriptions do now."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from admin.deps import ReaderOfSome, ServicesDep
from admin.models.base import Code, optional_time
from admin.models.responses.base import Listing, encoded
from admin.models.responses.conditions import ConditionView
from bus.domain.health.conditions import Condition
from bus.localized_text import localized_text_of

router = APIRouter(tags=["subscriptions"])


@router.get("/conditions", response_model=Listing[ConditionView])
async def list_conditions(
    services: ServicesDep,
    principal: ReaderOfSome,
    destination: Annotated[Code | None, Query(description="Of this one alone.")] = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> Response:
    """Return the condition of each subscription, the worst first: one word, the reason, and the backlog.

    ``state`` is ``breaker_open``, ``failing`` (a tenth of the attempts or more), ``saturated``, ``paused``,
    ``held_by_rate``, ``healthy``, or ``quiet``: no recent attempts. It reads no messages.
    """
    sight = await services.observatory.look()
    found = await services.observatory.conditions(sight)

    def is_asked_for(one: Condition) -> bool:
        return destination in (None, one.destination) and principal.may("read", one.destination)

    return await asyncio.to_thread(lambda: _worst(filter(is_asked_for, found), limit))


def _worst(found: Iterable[Condition], limit: int) -> Response:
    worst = sorted(found, key=lambda one: (one.state.rank, one.destination, one.subscription))
    return encoded(Listing(items=[_view(one) for one in worst[:limit]]))


def _view(one: Condition) -> ConditionView:
    return ConditionView(
        destination=one.destination,
        subscription=one.subscription,
        state=one.state,
        why=str(one.why),
        why_text=localized_text_of(one.why),
        since=optional_time(one.since or 0),
        probe_at=optional_time(one.probe_at or 0),
        waiting=one.waiting.records,
        oldest=optional_time(one.waiting.oldest or 0),
        retrying=one.retrying,
        dead=one.dead,
        attempts=one.attempts,
        failed=one.failed,
    )
