"""Accepting messages: check, recognise repetitions, make durable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination
from bus.domain.identity import id_time, new_id
from bus.domain.message import Message, check_destination, encode_message
from bus.domain.times import DAY
from bus.errors import BusError, Conflict, InvalidDestination, InvalidMessage, MessageTooLarge, StoreUnavailable
from bus.ports.clock import Clock
from bus.ports.spool import NewRecord, Spool
from bus.registry import Registry
from bus.security.keyring import Principal
from receiver.draft import Draft
from receiver.duplicates import Claim, IdempotencyKeys, Recent, digest, scope_of
from receiver.publishing import Publisher
from receiver.tally import Tally

_AHEAD: Final = 600_000


class Accepted(NamedTuple):
    """A message that is durable in the receiver's spool, now or since an earlier request."""

    id: str
    duplicate: bool


class _Fresh(NamedTuple):
    message: Message
    scope: str
    claim: Claim | None


class Ingest:
    """Takes drafts and answers for each; what it accepted is durable."""

    def __init__(
        self,
        registry: Registry,
        spool: Spool,
        recent: Recent,
        keys: IdempotencyKeys,
        publisher: Publisher,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._spool = spool
        self._recent = recent
        self._keys = keys
        self._publisher = publisher
        self._clock = clock
        self._tally = Tally()

    def limit(self, destination: str) -> int:
        """Return the largest body that a destination takes; raises ``InvalidDestination`` for one that is not there."""
        return self._destination(self._registry.catalog, destination).max_bytes

    async def accept_one(self, draft: Draft, principal: Principal) -> Accepted:
        """Accept one message; durable when it returns.

        Raises
        ------
        BusError
            Why it is refused; nothing of it was stored.
        """
        (answer,) = await self.accept([draft], principal)
        if isinstance(answer, BusError):
            raise answer
        return answer

    async def accept(self, drafts: Sequence[Draft | BusError], principal: Principal) -> list[Accepted | BusError]:
        """Accept many messages with one fsync and answer for each, in order; a refused one does not stop the others.

        Raises
        ------
        SpoolError
            The spool takes nothing now; nothing of this call was accepted.
        """
        stored = asyncio.get_running_loop().create_future()
        fresh: list[_Fresh] = []
        try:
            answers = [await self._consider(draft, principal, fresh, stored) for draft in drafts]
            if fresh:
                await self._store(fresh)
        except BaseException:
            self._undo(fresh)
            stored.set_result(False)
            raise
        stored.set_result(True)
        return answers

    async def _consider(
        self, draft: Draft | BusError, principal: Principal, fresh: list[_Fresh], stored: asyncio.Future[bool]
    ) -> Accepted | BusError:
        if isinstance(draft, BusError):
            return draft
        try:
            return await self._check(draft, principal, fresh, stored)
        except BusError as error:
            return error

    async def _check(
        self, draft: Draft, principal: Principal, fresh: list[_Fresh], stored: asyncio.Future[bool]
    ) -> Accepted:
        catalog = self._registry.catalog
        destination = self._destination(catalog, draft.destination)
        principal.require("ingest", draft.destination)
        if len(draft.body) > destination.max_bytes:
            raise MessageTooLarge(
                f"the body has {len(draft.body)} bytes; {destination.code} takes {destination.max_bytes}", field="body"
            )
        now = self._clock.now()
        scope, claim = "", None
        if draft.idempotency_key:
            scope = scope_of(draft.destination, principal.name, draft.idempotency_key)
            known = await self._claimed(scope, draft.body, now)
            if known is not None:
                return Accepted(known.message_id, True)
        if draft.id:
            _check_id_time(draft.id, destination, now)
            if await self._is_known(draft.id, stored):
                return Accepted(draft.id, True)
        _check_deliver_at(draft, destination, now)
        message = _stamp(draft, destination, catalog.expected(destination.code), now)
        self._recent.begin(message.id, stored)
        if scope:
            claim = Claim(message.id, digest(draft.body), now)
            self._keys.claim(scope, claim)
        fresh.append(_Fresh(message, scope, claim))
        return Accepted(message.id, False)

    async def _is_known(self, message_id: str, stored: asyncio.Future[bool]) -> bool:
        try:
            return await self._recent.knows(message_id, stored)
        except StoreUnavailable:
            return False

    async def _claimed(self, scope: str, body: bytes, now: int) -> Claim | None:
        try:
            claim = await self._keys.find(scope, now)
        except StoreUnavailable:
            return None
        if claim is not None and claim.body != digest(body):
            raise Conflict(
                f"the Idempotency-Key was used for another body, message {claim.message_id}",
                hint="use a new key for a new message",
            )
        return claim

    async def _store(self, fresh: Sequence[_Fresh]) -> None:
        records = [
            NewRecord(item.message.destination, encode_message(item.message), item.message.received_at)
            for item in fresh
        ]
        await self._spool.append(records)
        for item in fresh:
            message = item.message
            self._recent.finish(message.id)
            self._publisher.notice(message.destination)
            self._tally.accepted(message)
            if item.claim is not None:
                await self._remember(item.scope, item.claim)

    async def _remember(self, scope: str, claim: Claim) -> None:
        try:
            await self._keys.keep(scope, claim)
        except StoreUnavailable:
            return  # best effort: in memory it is known

    def _undo(self, fresh: Sequence[_Fresh]) -> None:
        for item in fresh:
            self._recent.forget(item.message.id)
            if item.scope:
                self._keys.unclaim(item.scope)

    def _destination(self, catalog: Catalog, code: str) -> Destination:
        destination = catalog.destinations.get(code)
        if destination is None:
            check_destination(code)
            raise InvalidDestination(
                f"there is no destination {code!r}",
                hint=f"make it with: bus destination set {code}",
                field="destination",
            )
        return destination


def _check_id_time(message_id: str, destination: Destination, now: int) -> None:
    made = id_time(message_id)
    if made > now + _AHEAD or made < now - destination.retention_days * DAY:
        raise InvalidMessage(
            "the id's time is more than 10 minutes ahead or older than the destination's retention",
            hint="send it under a new id",
            field="id_time",
        )


def _check_deliver_at(draft: Draft, destination: Destination, now: int) -> None:
    if draft.deliver_at > now + destination.retention_days * DAY:
        raise InvalidMessage(
            f"deliver_at is further ahead than the retention of {destination.retention_days} days", field="deliver_at"
        )


def _stamp(draft: Draft, destination: Destination, expected: tuple[str, ...], now: int) -> Message:
    return Message(
        id=draft.id or new_id(now),
        destination=destination.code,
        body=draft.body,
        content_type=draft.content_type,
        sent_at=draft.sent_at or now,
        received_at=now,
        source=draft.source,
        biz_id=draft.biz_id,
        key=draft.key,
        routing_key=draft.routing_key,
        headers=draft.headers,
        deliver_at=draft.deliver_at,
        traceparent=draft.traceparent,
        tracestate=draft.tracestate,
        expected=expected,
        retention_days=destination.retention_days,
        original_id=draft.original_id,
        idempotency_key=draft.idempotency_key,
    )
