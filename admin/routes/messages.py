"""Routes of messages: search, trace, body, resend."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response

from admin.deps import Reader, ReaderOfSome, ResenderOfSome, ServicesDep
from admin.models.repair import ResendBody
from admin.models.responses.messages import MessagesView, ResentView, TraceView
from admin.requests.audited import AuditedRoute, EntryDep, add_entry
from admin.requests.documented import download, written
from admin.requests.masking import MasksDep
from admin.requests.queries import SearchQuery, searched_view
from admin.showing.archives import missing
from admin.showing.contents import pretty
from admin.showing.masks import withheld
from admin.showing.views import Lineage, message_row, trace_view
from bus.domain.identity import parse_id
from bus.domain.tracing.trace import Trace
from bus.errors import InvalidMessage
from bus.localized_text import text_of_error
from bus.security.principals import Principal

router = APIRouter(prefix="/messages", tags=["messages"], route_class=AuditedRoute)
_BODIES: Final = download("The body; JSON where it is asked for `as=pretty`.", "*/*")
_BODIES[200]["headers"] = {"Bus-Masked": {"schema": {"type": "string"}, "description": "`true` where parts are hidden"}}


@router.get("", response_model=MessagesView)
async def search_messages(
    services: ServicesDep, _: Reader, masks: MasksDep, query: Annotated[SearchQuery, Query()]
) -> Response:
    """Return one page of messages, the newest first.

    `searched` says of which times this page has every match: from `to` (exclusive; null for now) down to `from` (null
    for the beginning of what is stored), by the times in the messages' ids. `complete` is true when that reaches down
    to all that was asked for: then `next` is null, and a search without items has found that there are none. Otherwise
    `reason` is `limit` (the page is full) or `time` (what no index answers, such as a text in bodies, was looked for
    as long as a page may take): the page may be empty though there are matches further down, and `next` continues
    there. At an end that the limit made, messages of that millisecond may be on the next page too.

    `archived` of `searched` lists days between these times that were archived and dropped, with the `lake` that has
    them: what is there is not searched.

    Pages hold each message once. Conditions are checked when the page is read: a message whose state changes between
    two pages is in the page that finds it, or in none. Messages that arrive meanwhile are newer than the first page.

    A row's `attempts` are the POSTs made so far, the most of any delivery that is not finished, or of all when none is;
    `next_attempt_at` is when the next one is due, null unless it waits for one.
    """
    selection = query.to_domain()
    masks.require_unprobed(selection)
    try:
        page = await services.context.store.search(selection, cursor=query.cursor, limit=query.limit)
    except ValueError as error:
        raise InvalidMessage(text_of_error(error), field="cursor") from error
    found = MessagesView(
        items=[message_row(trace) for trace in page.traces],
        next=page.next,
        searched=searched_view(page.searched, await services.archives.between(*page.searched[:2])),
    )
    return written(found)


@router.get("/{message_id}", response_model=TraceView)
async def get_trace(
    message_id: str,
    services: ServicesDep,
    principal: ReaderOfSome,
    masks: MasksDep,
    attempts: Annotated[str, Query(pattern=r"^(all|none|(first|last):[0-9]{1,4})$")] = "all",
) -> Response:
    """Return the whole life of a message, with all attempts of each delivery, none, or the ``first:N`` or ``last:N``.

    ``hops`` are its steps in the order of time, from the producer to the next attempt due; what is missing is a hop of
    its own (``missing``). A hop's ``what_text`` has the ``template`` of the English sentence and its ``values``, to say
    it in another language; a value may have both itself, and one called ``time`` is a time. It is null where ``what``
    are words of the subscriber's side. ``attempts_kept`` of ``attempts_made`` are in the store. Of an attempt's phases
    ``queue`` is its wait in the dispatcher that had taken it from the transport.
    Of a delivery that has not ended ``held`` says why it is not out now, as the processes say it at this moment: its
    ``cause`` is ``paused``, ``removed``, ``scheduled``, ``retry`` (the next attempt is not due), ``order`` (an
    earlier message of its key), ``nobody`` (no dispatcher, or none that hands over, is alive), ``breaker``,
    ``permits``, ``rate``, ``queue`` (a broker or a local queue) or ``under_way``; ``what`` and ``what_text`` say it to
    people. It is null when the dispatchers do not answer within 2 s, and once the delivery has ended, unless it is dead
    and holds up its key (``order``).
    ``edited_from`` and ``edits`` link a message with the one that it was made of by editing, and with those made of it.
    ``replay`` has the name of the replay that sent it, and the id of the message that it is a copy ``of``.
    ``masked``: its destination has masking rules; the headers that they name are ``***``, and what subscribers answered
    is withheld (``response`` is null).
    """
    trace = masks.trace(await trace_of(services, message_id, principal, "read"))
    origin = await services.editor.origin(trace.message) if trace.message is not None else None
    causes = await services.causes.of(trace)
    edits = await services.editor.made_of(trace.id)
    is_masked = bool(masks.of(trace.destination))
    view = trace_view(
        trace, services.context.registry.catalog, causes, attempts, Lineage(origin, edits), is_masked=is_masked
    )
    return written(view)


@router.get("/{message_id}/body", response_class=Response, responses=_BODIES)
async def get_body(
    message_id: str,
    request: Request,
    services: ServicesDep,
    principal: ReaderOfSome,
    masks: MasksDep,
    form: Annotated[Literal["exact", "pretty"], Query(alias="as")] = "exact",
) -> Response:
    """Return the exact bytes of a message, as a download: a browser never renders them. Who read it is on record.

    With ``as=pretty`` return ``{"json", "text", "bytes"}``: JSON indented, other text as it is (``json`` false), null
    for what is not UTF-8. Where masking rules hide parts of it the answer has ``Bus-Masked: true``, and is a 403 when
    it cannot be masked.
    """
    message = await services.context.store.message(message_id_of(message_id))
    if message is None:
        raise await services.archives.absent(message_id_of(message_id))
    if not principal.may("read", message.destination):
        raise missing(message_id)
    seen = await masks.body(message)
    if not masks.unmasked:
        await add_entry(request, principal, status=200 if seen.body is not None else 403)
    if seen.body is None:
        raise withheld(seen)
    headers = {"bus-masked": "true"} if seen.masked else {}
    if form == "pretty":
        return written(pretty(seen.body), headers)
    headers |= {
        "content-disposition": f'attachment; filename="{message.id}"',
        "content-type": message.content_type,
    }
    return Response(seen.body, headers=headers)


@router.post("/{message_id}/resend", status_code=202)
async def resend_message(
    message_id: str, services: ServicesDep, entry: EntryDep, principal: ResenderOfSome, body: ResendBody | None = None
) -> ResentView:
    """Deliver a message again, to all subscriptions or to those named; the id is that of a job of one message.

    422 for one of a strictly ordered destination without ``reorder``.
    """
    body = body or ResendBody()
    trace = await trace_of(services, message_id, principal, "resend")
    services.check_reorder(trace.destination, reorder=body.reorder)
    entries = [entry.document(status=202)]
    job, targets = await services.runner.resend_one(trace, body.subscriptions, principal.name, body.reason, entries)
    return ResentView(id=job.id, subscriptions=[target.subscription for target in targets])


async def trace_of(services: ServicesDep, message_id: str, principal: Principal, action: str) -> Trace:
    """Return a trace; raises ``NotFound`` also when the principal may not do the action to its destination."""
    trace = await services.context.store.trace(message_id_of(message_id))
    if trace is None:
        raise await services.archives.absent(message_id_of(message_id))
    if not principal.may(action, trace.destination):
        raise missing(message_id)
    return trace


def message_id_of(text: str) -> str:
    """Return the message id in a path; raises ``NotFound`` for a text that is none."""
    try:
        return parse_id(text)
    except ValueError as error:
        raise missing(text) from error
