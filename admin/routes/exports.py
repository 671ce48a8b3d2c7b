"""The route that exports a whole selection as a file, page by page, so that its size does not matter."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from admin.deps import Reader, ServicesDep
from admin.requests.audited import AuditedRoute, add_entry
from admin.requests.documented import download
from admin.requests.masking import MasksDep
from admin.requests.queries import ExportQuery
from admin.showing.export_rows import WRITERS
from admin.showing.masks import Masks, VisibleBody
from bus.domain.searching.selection import Selection
from bus.domain.times import format_time
from bus.domain.tracing.trace import Trace
from bus.errors import InvalidMessage, StoreError
from bus.ports.store import TraceStore

router = APIRouter(prefix="/messages", tags=["messages"], route_class=AuditedRoute)
_PAGE: Final = 200
_FILES: Final = download("The file, as an attachment.", *(writer.media_type for writer in WRITERS.values()))
_log = logging.getLogger(__name__)
Whole = tuple[Trace, VisibleBody | None]


class CutOff(Exception):
    """Raised in a response that has begun and cannot be completed, so that the server closes the connection."""


@router.get("/export", response_class=StreamingResponse, responses=_FILES)
async def export_messages(
    request: Request, services: ServicesDep, principal: Reader, masks: MasksDep, query: Annotated[ExportQuery, Query()]
) -> StreamingResponse:
    """Return every message of a selection as a file, the newest first; what is sent later is not in it.

    `ndjson` has a line for each message: the fields of a search's rows, with `key`, `content_type`, `traceparent`,
    `headers`, and `deliveries` with their states and reasons; with `bodies=true` also `body`, where the body is JSON,
    or else `body_base64`. The last line is `{"complete": true, "count": N}`. `csv` has the columns of a search's rows
    and `key`, `content_type` and `traceparent`; a cell that a spreadsheet would run as a formula begins with an
    apostrophe. What masking rules hide is `***`, and `masked` is true then; a body that cannot be masked is left out,
    and `body_withheld` says why.

    A file is whole only if the response ends as HTTP says (its last chunk arrives), for `ndjson` also only with that
    last line. When the store goes away in the middle the connection is cut instead, which every HTTP client reports;
    nothing is lost: export again. An export with bodies is one entry of the audit log.
    """
    if query.bodies and query.format != "ndjson":
        raise InvalidMessage("bodies: only format=ndjson includes bodies", field="bodies")
    writer = WRITERS[query.format]()
    store = services.context.store
    selection = query.to_domain()
    masks.require_unprobed(selection)
    pages = _pages(store, selection, masks, bodies=query.bodies)
    first = await anext(pages)  # what fails before the first byte is answered as a problem
    if query.bodies and not masks.unmasked:
        await add_entry(request, principal, status=200)

    async def lines() -> AsyncIterator[bytes]:
        yield writer.head() + writer.rows(first)
        try:
            async for page in pages:
                yield writer.rows(page)
        except StoreError as error:
            _log.warning("an export is cut off in the middle: %s", error)
            raise CutOff from error
        yield writer.tail()

    stamp = format_time(services.context.clock.now()).partition(".")[0].replace("-", "").replace(":", "")
    disposition = f'attachment; filename="messages-{stamp}Z.{query.format}"'
    return StreamingResponse(lines(), media_type=writer.media_type, headers={"content-disposition": disposition})


async def _pages(store: TraceStore, selection: Selection, masks: Masks, *, bodies: bool) -> AsyncIterator[list[Whole]]:
    """Give the messages of a selection; one that its retention takes away meanwhile is left out."""
    cursor: str | None = None
    while True:
        page = await store.search(selection, cursor=cursor, limit=_PAGE)
        yield [] if bodies else [(masks.trace(trace), None) for trace in page.traces]
        for trace in page.traces if bodies else ():
            message = await store.message(trace.id)
            if message is not None:
                yield [(masks.trace(trace), await masks.body(message))]
        cursor = page.next
        if cursor is None:
            return
