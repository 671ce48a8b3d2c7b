"""The route of summaries: values that messages of a search have in common, and the times of these messages."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from fastapi import APIRouter, Query
from pydantic import ValidationError

from admin.deps import Reader, ServicesDep
from admin.models.responses.summaries import PeriodView, SharedView, SummaryView, ValueView
from admin.models.selection import SelectionBody
from admin.requests.audited import AuditedRoute
from admin.requests.masking import MasksDep
from admin.requests.queries import SelectionQuery, searched_view
from admin.showing.masks import Masks
from bus.domain.searching.selection import Selection
from bus.domain.times import SECOND, format_time
from bus.domain.tracing.summary import Attribute, SharedAttribute, SummaryBuilder
from bus.errors import AccessDenied
from bus.ports.clock import Clock
from bus.ports.store import SearchedRange, TraceStore

router = APIRouter(prefix="/messages", tags=["messages"], route_class=AuditedRoute)
PATIENCE: Final = 1.0
MOST: Final = 5_000
_PAGE: Final = 500
_ASKED_BY: Final = {
    "destination": "destination",
    "subscription": "subscription",
    "signature": "signature",
    "source": "source",
    "key": "ref",
    "header": "header",
}


@router.get("/summary")
async def summarize_messages(
    services: ServicesDep, _: Reader, masks: MasksDep, query: Annotated[SelectionQuery, Query()]
) -> SummaryView:
    """Return the number of messages that a search finds, their times, and values that many of them share.

    The newest 5,000 are looked at, and for a second: `searched` says down to where, as that of a search does. `periods`
    count messages by state, that of the deliveries which the filters ask for where they ask for some, else the worst;
    those without a message are left out. `shared` has the values of which each is that of a tenth of them at least, of
    what the filters do not name already; `filter` is the search for those alone, null where no filter can ask for it.
    """
    selection = query.to_domain()
    masks.require_unprobed(selection)
    context = services.context
    summing = SummaryBuilder(selection)
    searched = await _add_up(summing, context.store, selection, masks, context.clock)
    now = context.clock.now()
    before = now if selection.before is None else min(selection.before, now)
    summary = summing.result(searched.since, max(before, (searched.since or 0) + 1))
    archived = await services.archives.between(searched.since, searched.before)
    return SummaryView(
        messages=summary.messages,
        since=format_time(summary.since),
        until=format_time(summary.before),
        step_seconds=summary.step // SECOND,
        periods=[PeriodView(at=format_time(one.start), states=dict(one.states)) for one in summary.periods],
        shared=[_shared(one, selection, masks) for one in summary.shared],
        searched=searched_view(searched, archived),
    )


async def _add_up(
    summing: SummaryBuilder, store: TraceStore, selection: Selection, masks: Masks, clock: Clock
) -> SearchedRange:
    """Add messages page by page as far as time and number allow; return the range that was looked at."""
    deadline = clock.monotonic() + PATIENCE
    cursor: str | None = None
    before: int | None = selection.before
    while True:
        page = await store.search(selection, cursor=cursor, limit=_PAGE)
        for trace in page.traces:
            summing.add(masks.trace(trace))
        cursor = page.next
        if cursor is None or summing.messages >= MOST or clock.monotonic() > deadline:
            return page.searched._replace(before=before)


def _shared(shared: SharedAttribute, selection: Selection, masks: Masks) -> SharedView:
    attribute = shared.attribute
    values = [
        ValueView(value=value, messages=count, filter=_narrowed(selection, attribute, value, masks))
        for value, count in shared.values
    ]
    return SharedView(of=attribute.of, name=attribute.name, values=values, others=shared.others)


def _narrowed(selection: Selection, attribute: Attribute, value: str, masks: Masks) -> dict[str, str] | None:
    """Return the filter of those messages of a selection that have a value; None if the reader cannot ask for it."""
    if attribute.of not in _ASKED_BY:
        return None
    asked = f"{attribute.name}: {value}" if attribute.name else value
    narrowed = msgspec.structs.replace(selection, **{_ASKED_BY[attribute.of]: asked})
    try:
        masks.require_unprobed(narrowed)
        return SelectionBody.of(narrowed).model_dump(by_alias=True, exclude_none=True)
    except (AccessDenied, ValidationError):  # a value of a producer may be longer than a filter may be
        return None
