"""The route of producers, as receivers have seen them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from admin.deps import Reader, ServicesDep
from admin.models.responses.producers import ProducersView
from admin.showing.producers import producers_view

router = APIRouter(tags=["operations"])


@router.get("/producers")
async def list_producers(
    services: ServicesDep,
    _: Reader,
    source: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=0, le=1000)] = 200,
) -> ProducersView:
    """Return the producers that receivers saw within a day, those with the oldest queued message first.

    All processes are asked at once, for 2 s at most; ``unheard`` are receivers that do not answer. Each receiver keeps
    some hundreds in memory, from its start on, and of one key no more than half of them. ``refused`` are messages that
    were rejected permanently, which their producers keep; ``turned_away`` those that are rejected temporarily.
    """
    answers = await services.introspection.reports.of_all()
    return producers_view(answers, source=source, limit=limit, now=services.context.clock.now())
