"""Edited messages: new messages, each linked with its original."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from bus.domain.delivery.delivery import Outcome, Resend, Status
from bus.domain.destination import Destination
from bus.domain.headers import own_headers
from bus.domain.identity import new_id
from bus.domain.message import Message, check_size, encode_message
from bus.domain.texts import check_ascii, check_text
from bus.domain.times import DAY
from bus.domain.tracing import events as events_of
from bus.errors import Conflict, InvalidMessage, NotFound
from bus.localized_text import localized, text_of_error
from bus.ports.clock import Clock
from bus.ports.events import Events
from bus.ports.spans import NO_SPANS, Spans
from bus.ports.store import Document, Store
from bus.registry import Registry

EDITS: Final = "edits"
DUE_WORK: Final = "store"
"""The name of the transport in events of an edited message, which goes as due work of the store and by no broker."""
_SHOWN: Final = 100
_CHUNK: Final = 500
_FIRST: Final = 1


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of a new message that replace those of the old one; None keeps the old one's."""

    body: bytes | None = None
    content_type: str | None = None
    headers: dict[str, str] | None = None
    key: str | None = None
    biz_id: str | None = None


class Link(msgspec.Struct, frozen=True):
    """A link from a message to one edited from it: the new ``id``, ``at`` and ``until`` (when it is dropped) in ms."""

    id: str
    by: str
    reason: str
    at: int
    until: int


class Editor:
    """Makes messages by editing others, and keeps the links between them."""

    def __init__(self, store: Store, registry: Registry, events: Events, clock: Clock, spans: Spans = NO_SPANS) -> None:
        self._store = store
        self._registry = registry
        self._events = events
        self._clock = clock
        self._spans = spans

    async def make(
        self, old: Message, edit: Edit, subscriptions: Sequence[str] | None, *, by: str, reason: str
    ) -> Message:
        """Make a new message and have it delivered; durable with all its deliveries when it returns.

        The old message and its deliveries stay as they are.

        Raises
        ------
        InvalidMessage
            The edited message would not be valid.
        NotFound
            The destination is not there any more, or a subscription named.
        Conflict
            No subscription takes it.
        """
        destination = self._registry.destination(old.destination)
        names = self._names(destination, old, subscriptions)
        now = self._clock.now()
        message = _edited(old, edit, destination, names, now)
        link = Link(message.id, by, reason, now, now + destination.retention_days * DAY)
        # The link first: a link without a message is not shown, but a message without its link would be.
        await self._store.put(EDITS, f"{old.id}/{message.id}", msgspec.json.encode(link))
        await self._store.write([message, *(self._begun(message, name, link) for name in names)])
        self._events.emit(events_of.accepted(message))
        self._spans.accepted(message)
        self._events.emit(events_of.published(message, DUE_WORK, confirmed=True, at=now))
        return message

    async def made_of(self, message_id: str) -> list[Link]:
        """Return the links to the messages that were edited from one, the oldest first."""
        found = await self._store.list(EDITS, prefix=f"{message_id}/", limit=_SHOWN)
        links = [_link(document) for document in found]
        traces = await asyncio.gather(*(self._store.trace(link.id) for link in links))
        return [link for link, trace in zip(links, traces, strict=True) if trace is not None]

    async def origin(self, message: Message) -> Link | None:
        """Return the link from a message to its original; None if there is none, or it was dropped."""
        if not message.edited_from:
            return None
        found = await self._store.get(EDITS, f"{message.edited_from}/{message.id}")
        return _link(found) if found is not None else None

    async def expire(self) -> int:
        """Drop the links of messages that are past their retention; return how many."""
        now, place, dropped = self._clock.now(), "", 0
        while documents := await self._store.list(EDITS, after=place, limit=_CHUNK):
            place = documents[-1].key
            for document in documents:
                if _link(document).until < now:
                    await self._store.delete(EDITS, document.key)
                    dropped += 1
        return dropped

    def _names(self, destination: Destination, old: Message, wanted: Sequence[str] | None) -> tuple[str, ...]:
        catalog = self._registry.catalog
        known = catalog.names(destination.code)
        for name in wanted or ():
            if name not in known:
                raise NotFound(
                    localized(
                        "there is no subscription {name} of {destination}",
                        name=repr(name),
                        destination=repr(destination.code),
                    ),
                    hint=localized("see: bus subscription list {destination}", destination=destination.code),
                )
        names = catalog.expected(destination.code, old.routing_key) if wanted is None else tuple(dict.fromkeys(wanted))
        if not names:
            raise Conflict(
                localized(
                    "no subscription of {destination} takes it; nothing was made", destination=repr(destination.code)
                )
            )
        return names

    def _begun(self, message: Message, name: str, link: Link) -> Outcome:
        """Return the first outcome of a delivery: due now, so that the compensator hands it to a dispatcher."""
        return Outcome(
            message_id=message.id,
            destination=message.destination,
            subscription=name,
            retention_days=message.retention_days,
            url=self._registry.subscription(message.destination, name).url,
            status=Status.RESEND,
            generation=_FIRST,
            at=link.at,
            reason=link.reason,
            due_at=link.at,
            since=link.at,
            message=encode_message(message),
            resend=Resend(_FIRST, "", link.by, link.reason, link.at),
        )


def _edited(old: Message, edit: Edit, destination: Destination, names: tuple[str, ...], now: int) -> Message:
    """Return the new message; raises ``InvalidMessage`` for one that a receiver would refuse."""
    body = old.body if edit.body is None else edit.body
    try:
        headers = own_headers(old.headers if edit.headers is None else edit.headers)
    except ValueError as error:
        raise InvalidMessage(text_of_error(error), field="headers") from error
    check_size(body, headers, destination.max_bytes)
    return msgspec.structs.replace(
        old,
        id=new_id(now),
        body=body,
        content_type=_given(check_ascii(edit.content_type or "", "content_type"), old.content_type),
        sent_at=now,
        received_at=now,
        headers=headers,
        key=old.key if edit.key is None else check_text(edit.key, "key"),
        biz_id=old.biz_id if edit.biz_id is None else check_text(edit.biz_id, "biz_id"),
        deliver_at=0,
        expected=names,
        retention_days=destination.retention_days,
        original_id="",
        idempotency_key="",
        claim="",
        edited_from=old.id,
    )


def _given(text: str, otherwise: str) -> str:
    return text or otherwise


def _link(document: Document) -> Link:
    return msgspec.json.decode(document.value, type=Link)
