"""The route of failures, grouped by subscription and error signature."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Query

from admin.deps import ReaderOfSome, ServicesDep
from admin.models.base import Time
from admin.models.responses.failures import FailureGroupView, FailuresView
from admin.models.selection import SelectionBody
from bus.domain.searching.selection import Selection
from bus.domain.times import format_time, parse_time
from bus.domain.tracing.failures import FailureGroup, advice_on
from bus.domain.tracing.signature import MOST_CHARACTERS, error_of, has_variable
from bus.domain.tracing.trace import failure_of
from bus.errors import InvalidMessage, StoreError
from bus.localized_text import localized, localized_text_of
from bus.ports.store import MOST_GROUPS, TraceStore

router = APIRouter(tags=["failures"])
_MOST_EXAMPLES: Final = 50
_READ_AT_ONCE: Final = 16


@router.get("/failures")
async def list_failures(
    services: ServicesDep,
    principal: ReaderOfSome,
    destination: str | None = None,
    subscription: str | None = None,
    since: Annotated[Time | None, Query(alias="from")] = None,
    before: Annotated[Time | None, Query(alias="to")] = None,
    signature: Annotated[str | None, Query(max_length=MOST_CHARACTERS)] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_GROUPS)] = 100,
) -> FailuresView:
    """Return the groups of deliveries that are retried, parked or dead, the largest first.

    The times are those of the messages' ids. ``filter`` of a group is what a search and a bulk resend take for exactly
    its deliveries, ``example`` the error of its newest message (of the first 50 groups; its signature for others),
    ``advice`` what helps: it differs for a subscriber that refuses a message as it is (4xx but 408, 425 and 429), one
    that fails, and one that does not answer. ``complete`` is false when there are more groups, or when the time did not
    suffice for messages made before ``complete_since``.
    """
    if destination is not None:
        principal.require("read", destination)
    start, end = parse_time(since) if since else None, parse_time(before) if before else None
    if start is not None and end is not None and start >= end:
        raise InvalidMessage(localized("from: it must be before to"), field="from")
    selection = Selection(destination=destination, subscription=subscription, since=start, before=end)
    found = await services.context.store.failures(selection)
    groups = [
        group
        for group in found.groups
        if principal.may("read", group.destination) and signature in (None, group.signature)
    ]
    has_more = len(groups) > limit or found.left_out > 0
    shown = groups[:limit]
    examples = await _examples(services.context.store, shown)
    return FailuresView(
        items=[_view(group, example, selection) for group, example in zip(shown, examples, strict=True)],
        complete=found.since is None and not has_more,
        complete_since=format_time(found.since) if found.since is not None else None,
    )


async def _examples(store: TraceStore, groups: Sequence[FailureGroup]) -> list[str]:
    """Return for each group the error of its newest message; its signature where all errors are the same."""
    examples = [group.signature for group in groups]
    varying = [place for place, group in enumerate(groups) if has_variable(group.signature)][:_MOST_EXAMPLES]
    reading = asyncio.Semaphore(_READ_AT_ONCE)

    async def read(place: int) -> None:
        async with reading:
            examples[place] = await _example(store, groups[place])

    await asyncio.gather(*map(read, varying))
    return examples


async def _example(store: TraceStore, group: FailureGroup) -> str:
    """Return the error of the newest message; the signature if the store fails, or this message fails so no longer."""
    try:
        trace = await store.trace(group.sample)
    except StoreError:
        return group.signature
    delivery = trace.deliveries.get(group.subscription) if trace is not None else None
    if delivery is None or failure_of(delivery) != group.signature:
        return group.signature
    return error_of(delivery.reason)


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
