"""The route of failures, grouped by subscription and what they have in common."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query

from admin.deps import ReaderOfSome, ServicesDep
from admin.models.base import Time
from admin.models.responses.failures import FailureGroupView, FailuresView
from admin.models.selection import SelectionBody
from bus.domain.searching.selection import Selection
from bus.domain.times import format_time, parse_time
from bus.domain.tracing.failures import FailureGroup, advice_on
from bus.domain.tracing.signature import error_of, has_variable
from bus.errors import InvalidMessage
from bus.localized_text import localized, localized_text_of
from bus.ports.store import MOST_GROUPS, TraceStore

router = APIRouter(tags=["failures"])


@router.get("/failures")
async def list_failures(
    services: ServicesDep,
    principal: ReaderOfSome,
    destination: str | None = None,
    subscription: str | None = None,
    since: Annotated[Time | None, Query(alias="from")] = None,
    before: Annotated[Time | None, Query(alias="to")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_GROUPS)] = 100,
) -> FailuresView:
    """Return the groups of deliveries that are retried, parked or dead, the largest first.

    The times are those of the messages' ids. ``filter`` of a group is what a search and a bulk resend take for exactly
    its deliveries, ``example`` the error of its newest message, ``advice`` what helps: it differs for a subscriber that
    refuses a message as it is (4xx but 408, 425 and 429), one that fails, and one that does not answer. ``complete`` is
    false when there are more groups, or when the time did not suffice for messages made before ``complete_since``.
    """
    if destination is not None:
        principal.require("read", destination)
    start, end = parse_time(since) if since else None, parse_time(before) if before else None
    if start is not None and end is not None and start >= end:
        raise InvalidMessage(localized("from: it must be before to"), field="from")
    selection = Selection(destination=destination, subscription=subscription, since=start, before=end)
    found = await services.context.store.failures(selection)
    groups = [group for group in found.groups if principal.may("read", group.destination)]
    has_more = len(groups) > limit or found.left_out > 0
    shown = groups[:limit]
    examples = await asyncio.gather(*(_example(services.context.store, group) for group in shown))
    return FailuresView(
        items=[_view(group, example, selection) for group, example in zip(shown, examples, strict=True)],
        complete=found.since is None and not has_more,
        complete_since=format_time(found.since) if found.since is not None else None,
    )


async def _example(store: TraceStore, group: FailureGroup) -> str:
    """Return the error of the newest message of a group; the signature where all errors are the same."""
    if not has_variable(group.signature):
        return group.signature
    trace = await store.trace(group.sample)
    delivery = trace.deliveries.get(group.subscription) if trace is not None else None
    return error_of(delivery.reason) if delivery is not None else group.signature


def _view(group: FailureGroup, example: str, asked: Selection) -> FailureGroupView:
    exactly = Selection(
        destination=group.destination,
        subscription=group.subscription,
        signature=group.signature,
        since=asked.since,
        before=asked.before,
    )
    return FailureGroupView(
        destination=group.destination,
        subscription=group.subscription,
        signature=group.signature,
        example=example,
        advice=str(advice_on(group.signature)),
        advice_text=localized_text_of(advice_on(group.signature)),
        count=group.count,
        deliveries={status.value: count for status, count in sorted(group.counts.items())},
        first_seen=format_time(group.first_at),
        last_seen=format_time(group.last_at),
        sample=group.sample,
        filter=SelectionBody.of(exactly).model_dump(by_alias=True, exclude_none=True),
    )
