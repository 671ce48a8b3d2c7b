"""Accepting messages: check, recognise repetitions, make durable."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Collection, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final, NamedTuple

import msgspec

from bus.cluster.configuration import Configuration
from bus.domain.claim import Claim, claim_of, digest
from bus.domain.delivery.quota import SpoolCapacity
from bus.domain.destination import Destination, Ordering
from bus.domain.identity import id_time, new_id
from bus.domain.json_bodies import is_json, is_well_formed
from bus.domain.message import Message, check_size, encode_message
from bus.domain.times import DAY
from bus.domain.tracing import events as events_of
from bus.errors import BusError, Conflict, InvalidMessage, PeerUnavailable, StoreUnavailable
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.localized_text import localized
from bus.ports.claims import Claims
from bus.ports.clock import Clock
from bus.ports.events import Events
from bus.ports.spans import NO_SPANS, Spans
from bus.ports.spool import NewRecord, Spool, Waiter
from bus.registry import Registry
from bus.security.principals import Principal
from bus.telemetry import metrics
from bus.telemetry.source_counters import SourceCounters
from receiver.destinations import find_destination, no_producers
from receiver.duplicates import (
    MOST_AHEAD,
    IdempotencyKeys,
    RecentIds,
    Stored,
    content_of,
    name_of,
    scope_of,
)
from receiver.placement import Candidate, Place, Placement
from receiver.publishing import SpoolPublisher
from receiver.quotas import Quotas
from receiver.repetitions import Repetitions, newest_unstored
from receiver.routing import HERE, OtherReceivers, Route, split_by_route
from receiver.strict_writing import ProducedMessage, StrictWriting

_MOMENT: Final = 0.1
_PATIENCE: Final = 1.0
_SAID: Final = tuple(name for name in Message.__struct_fields__ if name in Draft.__struct_fields__)
_said: Final = operator.attrgetter(*_SAID)


class _FreshMessage(NamedTuple):
    message: Message
    producer: int
    place: Place
    record: NewRecord
    content: bytes | None
    claim: Claim | None

    def written_with(self, epoch: int) -> _FreshMessage:
        """Return it as a group of brokers holds it, with the epoch by which it is found there; 0 where none does."""
        if not epoch:
            return self
        message = msgspec.structs.replace(self.message, epoch=epoch)
        return self._replace(message=message, record=_record(message, encode_message(message), self.place))


class _Call(NamedTuple):
    """What one call accepts; ``stored`` ends with its appends; ``rooms`` is what it leaves of the spools' shares.

    ``kept`` has, by id, those of the ``fresh`` messages that are durable. ``places`` has, by destination, where its
    messages are kept. ``held_up`` has, by destination that keeps an order,
    why one of its messages was refused for now: those behind it are refused as well, since they would overtake it.
    ``unchecked`` are the keys that may have been used before.
    """

    principal: Principal
    unchecked: AbstractSet[str]
    places: dict[str, Place]
    stored: Stored
    fresh: list[_FreshMessage]
    kept: dict[str, _FreshMessage]
    rooms: dict[str, SpoolCapacity]
    held_up: dict[str, BusError]


class _StoringMessage:
    """A message on its way to the disk; what becomes of it is noted whether or not anybody still waits for it."""

    __slots__ = ("_message", "_note", "_waiter")

    def __init__(self, message: Message, note: Callable[[Message, int], None], waiter: Waiter[AcceptedMessage]) -> None:
        self._message = message
        self._note = note
        self._waiter = waiter

    def done(self) -> bool:
        return False

    def set_result(self, positions: list[int], /) -> None:
        try:
            self._note(self._message, positions[0])
        finally:
            if not self._waiter.done():
                self._waiter.set_result(AcceptedMessage(self._message.id, False))

    def set_exception(self, error: Exception, /) -> None:
        if not self._waiter.done():
            self._waiter.set_exception(error)


class Ingest:
    """Takes drafts and answers for each; what it accepted is durable."""

    def __init__(
        self,
        registry: Registry,
        configuration: Configuration,
        elsewhere: OtherReceivers,
        strict: StrictWriting,
        placement: Placement,
        recent: RecentIds,
        keys: IdempotencyKeys,
        claims: Claims | None,
        quotas: Quotas,
        publisher: SpoolPublisher,
        events: Events,
        clock: Clock,
        spans: Spans = NO_SPANS,
    ) -> None:
        self._registry = registry
        self._configuration = configuration
        self._elsewhere = elsewhere
        self._strict = strict
        self._placement = placement
        self._recent = recent
        self._keys = keys
        self._repetitions = Repetitions(recent, keys, claims, strict.is_strict, clock)
        self._quotas = quotas
        self._publisher = publisher
        self._events = events
        self._clock = clock
        self._spans = spans
        self._tally = SourceCounters(metrics.ACCEPTED)
        self._not_json = SourceCounters(metrics.NOT_JSON)

    async def recover(self, sources: Sequence[tuple[Spool, str]]) -> None:
        """Recognise what an earlier life accepted, before the first message comes.

        Parameters
        ----------
        sources
            The spools of accepted messages, each with the consumer that brings them to the store.
        """
        await self._repetitions.recover(newest_unstored(sources))

    async def until_current(self) -> None:
        """Return once every change of the configuration that was answered is in force here."""
        await self._configuration.until_current()

    def is_here(self, destination: str) -> bool:
        """Whether a destination's messages are accepted by this process, or forwarded."""
        return self._elsewhere.is_here(destination)

    def awaits_disk_alone(self, destination: str) -> bool:
        """Whether nothing but this process's disk has to be awaited for a message."""
        is_here = self._configuration.is_current and self.is_here(destination)
        return is_here and not self._strict.is_strict(destination)

    def limit(self, destination: str) -> int:
        """Return the largest body that a destination takes; raises ``InvalidDestination`` for one that is not there."""
        return find_destination(self._registry, destination).max_bytes

    async def accept_one(self, draft: Draft, principal: Principal) -> AcceptedMessage:
        """Accept one message; durable when it returns.

        Raises
        ------
        BusError
            Why it is refused; nothing of it was stored.
        """
        await self.until_current()
        if draft.id or draft.repeats or not self.awaits_disk_alone(draft.destination):
            (answer,) = await self.accept([draft], principal)
            if isinstance(answer, BusError):
                raise answer
            return answer
        accepted: asyncio.Future[AcceptedMessage] = asyncio.get_running_loop().create_future()
        self.accept_with(draft, principal, accepted)
        return await accepted

    def accept_with(self, draft: Draft, principal: Principal, waiter: Waiter[AcceptedMessage]) -> None:
        """Accept a message that has neither an id nor a key of its producer's, and call the waiter once it is durable.

        Such a message cannot be a repetition, nor have a twin, so that nothing has to be awaited. The waiter is called
        as `bus.ports.spool.Spool.append_with` calls one, with why the message was not stored when it was not. What is
        stored is accepted, also when the waiter is done by then.

        Raises
        ------
        BusError
            Why it is refused; nothing of it was stored, and the waiter is not called.
        """
        self._require_current()
        destination = self._examine(draft, principal)
        message = self._stamp(draft, destination, self._clock.now())
        payload = encode_message(message)
        place = self._placement.of([Candidate(destination, len(payload), draft.deliver_at)])
        self._quotas.take(destination, principal, len(payload), place, {})
        record = _record(message, payload, place)
        place.spool.append_with((record,), _StoringMessage(message, partial(self._note, place), waiter))

    def _require_current(self) -> None:
        """Refuse what came before the configuration was too old, since its destination may be another one's now."""
        if not self._configuration.is_current:
            raise StoreUnavailable(
                localized("the configuration could not be read in time; this message is not accepted"),
                hint=localized("send it again: nothing of it was stored"),
            )

    async def accept(
        self, drafts: Sequence[Draft | BusError], principal: Principal
    ) -> list[AcceptedMessage | BusError]:
        """Accept many messages with one fsync and answer for each, in order; a refused one does not stop the others.

        Messages of destinations that keep an order are kept where those before them are, which may take another fsync,
        or another process.

        Raises
        ------
        SpoolError, PeerUnavailable
            The spool takes nothing now, or a process that ended may have accepted one of them; nothing of this call is
            answered for, and all of it may be sent again.
        """
        await self.until_current()
        routes = [self._route(draft, principal) for draft in drafts]
        return await split_by_route(drafts, routes, partial(self._accept_by, principal))

    def _route(self, draft: Draft | BusError, principal: Principal) -> Route:
        if isinstance(draft, BusError):
            return HERE
        scope = _scope(draft, principal)
        if scope and self._keys.find(scope) is not None and self._keys.in_flight(scope) is None:
            scope = ""  # it is known here what the key stands for
        return self._elsewhere.route(draft.destination, scope)

    async def _accept_by(
        self, principal: Principal, route: Route, drafts: Sequence[Draft | BusError]
    ) -> Sequence[AcceptedMessage | BusError]:
        if route == HERE:
            return await self.accept_here(drafts, principal)
        forwarded = [draft for draft in drafts if isinstance(draft, Draft)]
        answers = await self._elsewhere.forward(route, forwarded, principal)
        left = [draft for draft, answer in zip(forwarded, answers, strict=True) if answer is None]
        accepted = iter(await self.accept_here(left, principal, has_asked=False) if left else ())
        return [next(accepted) if answer is None else answer for answer in answers]

    async def accept_here(
        self, drafts: Sequence[Draft | BusError], principal: Principal, *, has_asked: bool = True
    ) -> list[AcceptedMessage | BusError]:
        """Accept messages in this process, as ``accept`` does.

        Parameters
        ----------
        has_asked
            False if the process that owns the messages' keys did not answer, or did not take them.
        """
        scopes = [_scope(draft, principal) for draft in drafts]
        claimed, unchecked = await self._repetitions.known(drafts, scopes)
        stored: Stored = asyncio.get_running_loop().create_future()
        call = _Call(principal, unchecked if has_asked else frozenset(scopes), {}, stored, [], {}, {}, {})
        try:
            self._require_current()
            # Until the append nothing is awaited, so that no other call begins to store the same messages.
            call.places.update(self._places(drafts))
            answers = [self._consider(draft, scope, call) for draft, scope in zip(drafts, scopes, strict=True)]
            if call.fresh:
                refused = await self._store(call)
                answers = [refused.get(one.id, one) if isinstance(one, AcceptedMessage) else one for one in answers]
        finally:
            self._end(call)
            self._repetitions.settle(claimed, _names(call.kept.values()))
        if claims := [(item.message.claim, item.claim) for item in call.kept.values() if item.claim is not None]:
            answers = await self._keep(claims, answers)
        return answers

    def _places(self, drafts: Sequence[Draft | BusError]) -> dict[str, Place]:
        """Return by destination where what one call accepts is kept; what is refused anyway has no say in it.

        It is one place for all that keep no order.
        """
        known = self._registry.catalog.destinations
        groups: dict[str, list[Candidate]] = {}
        for draft in drafts:
            if isinstance(draft, Draft) and (destination := known.get(draft.destination)) is not None:
                group = "" if destination.ordering is Ordering.NONE else destination.code
                groups.setdefault(group, []).append(Candidate(destination, len(draft.body), draft.deliver_at))
        places = {group: self._placement.of(candidates) for group, candidates in groups.items()}
        return {one.destination.code: places[group] for group, candidates in groups.items() for one in candidates}

    def _consider(self, draft: Draft | BusError, scope: str, call: _Call) -> AcceptedMessage | BusError:
        if isinstance(draft, BusError):
            return draft
        if (refusal := call.held_up.get(draft.destination)) is not None:
            return refusal
        try:
            return self._check(draft, scope, call)
        except BusError as error:
            if error.retriable and self._keeps_order(draft.destination):
                call.held_up[draft.destination] = error
            return error

    def _keeps_order(self, code: str) -> bool:
        known = self._registry.catalog.destinations.get(code)
        return known is not None and known.ordering is not Ordering.NONE

    def _check(self, draft: Draft, scope: str, call: _Call) -> AcceptedMessage:
        destination = self._examine(draft, call.principal)
        now, content = self._clock.now(), None
        if scope and (first := self._keys.find(scope)) is not None:
            return _repeated(first, draft.body)
        if draft.id:
            content = content_of(draft.destination, draft.body)
            if self._recent.knows(draft.id):
                return self._known(draft.id, content)
            _check_id_time(draft.id, destination, now)
        is_unchecked = bool(scope) and scope in call.unchecked
        if is_unchecked and destination.refuse_unchecked_keys:
            raise _unchecked()
        message, place = self._stamp(draft, destination, now, scope), call.places[destination.code]
        record = _record(message, encode_message(message), place)
        self._quotas.take(destination, call.principal, len(record.payload), place, call.rooms)
        self._recent.begin(message.id, content, call.stored)
        claim = claim_of(message) if scope else None
        if claim is not None:
            self._keys.claim(scope, claim, call.stored)
        call.fresh.append(_FreshMessage(message, draft.producer, place, record, content, claim))
        return AcceptedMessage(message.id, False, is_unchecked)

    def _known(self, message_id: str, content: bytes) -> AcceptedMessage:
        if self._recent.is_other(message_id, content):
            raise Conflict(
                f"the id {message_id} was used for another destination or another body; this message is not accepted",
                hint="send it under an id of its own",
            )
        return AcceptedMessage(message_id, True)

    def _examine(self, draft: Draft, principal: Principal) -> Destination:
        """Return the destination of the draft, when this principal may send to it."""
        destination = find_destination(self._registry, draft.destination)
        principal.require("ingest", draft.destination)
        if draft.producer and destination.ordering is not Ordering.STRICT:
            raise no_producers(destination)
        check_size(draft.body, draft.headers, destination.max_bytes)
        return destination

    def _stamp(self, draft: Draft, destination: Destination, now: int, claim: str = "") -> Message:
        if draft.deliver_at:
            _check_deliver_at(draft, destination, now)
        if not draft.is_parsed and is_json(draft.content_type) and not is_well_formed(draft.body):
            self._not_json.count(destination.code, draft.source)
        expected = self._registry.catalog.expected(destination.code, draft.routing_key)
        return _stamp(draft, destination, expected, now, claim)

    async def _store(self, call: _Call) -> dict[str, BusError]:
        """Have what is fresh kept; return by id why not, of what no group of brokers holds for sure."""
        epochs, refused = await self._strict.write(
            [ProducedMessage(item.message, item.producer) for item in call.fresh]
        )
        held: dict[Place, list[_FreshMessage]] = {}
        for item in call.fresh:
            if item.message.id not in refused:
                held.setdefault(item.place, []).append(item.written_with(epochs.get(item.message.id, 0)))
        for place, items in held.items():
            positions = await place.spool.append([item.record for item in items])
            call.kept.update((item.message.id, item) for item in items)
            for item, position in zip(items, positions, strict=True):
                self._note(place, item.message, position)
        return refused

    def _end(self, call: _Call) -> None:
        """Forget messages that were not stored, and let the calls continue that wait for one of these messages."""
        for item in call.fresh:
            if item.message.id not in call.kept:
                self._recent.forget(item.message.id)
                if item.claim is not None:
                    self._keys.unclaim(item.message.claim)
        call.stored.set_result(None)

    async def _keep(
        self, claims: Sequence[tuple[str, Claim]], answers: Sequence[AcceptedMessage | BusError]
    ) -> list[AcceptedMessage | BusError]:
        """Write first uses, and return the answers, ``unchecked`` where another receiver may have accepted the key.

        Without another receiver, memory and the spool say what a key stands for, so that the store is not awaited.
        """
        is_alone = self._elsewhere.is_alone()
        confirmed = await self._keys.keep(claims, within=_MOMENT if is_alone else _PATIENCE)
        doubtful = {claim.message_id for _, claim in claims} - confirmed
        if is_alone or not doubtful:
            return list(answers)
        return [
            one._replace(unchecked=True) if isinstance(one, AcceptedMessage) and one.id in doubtful else one
            for one in answers
        ]

    def _note(self, place: Place, message: Message, position: int) -> None:
        """Take note of a message that is durable."""
        self._recent.finish(message.id)
        self._tally.count(message.destination, message.source)
        self._events.emit(events_of.accepted(message))
        self._spans.accepted(message)
        if place.accepting is None:
            self._publisher.notice(message.destination)
        else:
            place.accepting.accepted(message, position)
            self._publisher.count(message)


def _names(fresh: Collection[_FreshMessage]) -> dict[bytes, bytes]:
    """Return what messages repeat under, with what is said of each to the other processes."""
    names = {name_of(item.message.id): item.content for item in fresh if item.content is not None}
    claims = {
        bytes.fromhex(item.message.claim): msgspec.json.encode(item.claim) for item in fresh if item.claim is not None
    }
    return names | claims


def _record(message: Message, payload: bytes, place: Place) -> NewRecord:
    return NewRecord(place.lane(message.destination), payload, message.received_at)


def _scope(draft: Draft | BusError, principal: Principal) -> str:
    """Return the name under which the key of a draft is kept; empty without a key, as it cannot be a repetition."""
    if isinstance(draft, BusError) or not draft.repeats:
        return ""
    return scope_of(draft.destination, principal.id, draft.repeats)


def _repeated(first: Claim, body: bytes) -> AcceptedMessage:
    """Answer with the first id; raises ``Conflict`` when that had another body."""
    if first.body != digest(body):
        raise Conflict(
            f"the Idempotency-Key was used for another body, message {first.message_id}",
            hint="use a new key for a new message",
        )
    return AcceptedMessage(first.message_id, True)


def _unchecked() -> PeerUnavailable:
    return PeerUnavailable(
        localized(
            "the receiver or the store that has the uses of this key does not answer; this message is not accepted"
        ),
        hint=localized("send it again under the same key; the destination's refuse_unchecked_keys decides this"),
    )


def _check_id_time(message_id: str, destination: Destination, now: int) -> None:
    made = id_time(message_id)
    if made > now + MOST_AHEAD or made < now - destination.retention_days * DAY:
        raise InvalidMessage(
            "the id's time is more than 10 minutes ahead or older than the destination's retention",
            hint="send it under a new id",
            field="id_time",
        )


def _check_deliver_at(draft: Draft, destination: Destination, now: int) -> None:
    if destination.ordering is not Ordering.NONE:
        raise InvalidMessage(
            f"destination {destination.code!r} keeps an order, which a message for later would break",
            hint="send it when it is to be delivered, or to a destination without ordering",
            field="deliver_at",
        )
    if draft.deliver_at > now + destination.retention_days * DAY:
        raise InvalidMessage(
            f"deliver_at is further ahead than the retention of {destination.retention_days} days", field="deliver_at"
        )


def _stamp(draft: Draft, destination: Destination, expected: tuple[str, ...], now: int, claim: str) -> Message:
    stamped = {
        "id": draft.id or new_id(now),
        "destination": destination.code,
        "sent_at": draft.sent_at or now,
        "received_at": now,
        "expected": expected,
        "retention_days": destination.retention_days,
        "claim": claim,
    }
    return Message(**dict(zip(_SAID, _said(draft), strict=True)) | stamped)
