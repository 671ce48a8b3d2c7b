"""The trace of a message as one document, built from writes that arrive in any order and more than once.

Messages and outcomes travel on different transports, so every merge here commutes and is idempotent: the greatest
(generation, rank, attempts) of a delivery wins, and attempts are a map by id. Of a delivery that fails for days the map
keeps the first and the last attempts, and the same holds for resends, so that no document grows without end.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bus.domain.delivery.delivery import FINAL, RANK, SEVERITY, TRIED, UNDELIVERED, Attempt, Outcome, Resend, Status
from bus.domain.identity import id_time
from bus.domain.message import Message, decode_message, encode_message
from bus.domain.searching.conditions import (
    StatusClass,
    class_of,
    has_header,
    has_text,
    has_value,
    ids_traced_as,
    parse_ref,
    trace_id_of,
)
from bus.domain.searching.selection import Selection
from bus.domain.tracing.signature import FAILING, signature_of

FIRST_KEPT: Final = 100
LAST_KEPT: Final = 900
ANSWERS_KEPT: Final = 100
FIRST_RESENDS_KEPT: Final = 10
LAST_RESENDS_KEPT: Final = 40


class DeliveryTrace(msgspec.Struct, array_like=True, gc=False):
    """State, attempts and resends of one delivery; ``at`` is when the state was reached (ms)."""

    status: Status = Status.PENDING
    generation: int = 0
    attempts_made: int = 0
    at: int = 0
    reason: str = ""
    due_at: int = 0
    url: str = ""
    attempts: dict[str, Attempt] = {}
    resends: tuple[Resend, ...] = ()


class Trace(msgspec.Struct, array_like=True, gc=False):
    """One message's document.

    ``message`` is None while an outcome has arrived before the message; its body is kept apart (``body_bytes`` long).
    """

    id: str
    destination: str
    retention_days: int
    message: Message | None = None
    body_bytes: int = 0
    deliveries: dict[str, DeliveryTrace] = {}

    @property
    def status(self) -> Status:
        """The worst of the deliveries' states; ``skipped`` for a message without a subscription."""
        worst = Status.SKIPPED
        for delivery in self.deliveries.values():
            if SEVERITY[delivery.status] > SEVERITY[worst]:
                worst = delivery.status
        return worst

    @property
    def completed_at(self) -> int:
        """Time at which the last delivery was finished, in milliseconds since the epoch; 0 while one is not."""
        if not self.deliveries:
            return self.message.received_at if self.message else 0
        latest = 0
        for delivery in self.deliveries.values():
            if delivery.status not in FINAL:
                return 0
            latest = max(latest, delivery.at)
        return latest


def attempts_of(trace: Trace) -> int:
    """Return the most POSTs that one delivery had: of those that are not finished, or of all when none is open."""
    deliveries = trace.deliveries.values()
    unfinished = [delivery for delivery in deliveries if delivery.status not in FINAL]
    return max((delivery.attempts_made for delivery in unfinished or deliveries), default=0)


def next_attempt_at(trace: Trace) -> int:
    """Return when the next POST is due, in milliseconds since the epoch; 0 unless a delivery waits for one."""
    waiting = (delivery for delivery in trace.deliveries.values() if delivery.status not in FINAL)
    return min((delivery.due_at for delivery in waiting if delivery.due_at), default=0)


def start_trace(message_id: str, destination: str, retention_days: int) -> Trace:
    """Return an empty document."""
    return Trace(message_id, destination, retention_days, deliveries={})


def merge_message(trace: Trace, message: Message) -> bool:
    """Fill in the message and its expected deliveries; whether it is now the document's message.

    Of several messages with one id the first that a receiver took wins; the rest only add expected deliveries.
    """
    shell = msgspec.structs.replace(message, body=b"")
    wins = trace.message is None or _precedes(shell, len(message.body), trace.message, trace.body_bytes)
    if wins:
        trace.message = shell
        trace.body_bytes = len(message.body)
    deliveries = trace.deliveries
    for name in message.expected:
        if name not in deliveries:
            deliveries[name] = DeliveryTrace(attempts={})
    received_at = trace.message.received_at if trace.message else 0
    for delivery in deliveries.values():
        if _is_implied(delivery):
            delivery.at = received_at
    return wins


def merge_outcome(trace: Trace, outcome: Outcome) -> None:
    """Add the outcome's attempt or resend, and take its state when it is newer than the one known."""
    delivery = trace.deliveries.get(outcome.subscription)
    if delivery is None:
        at = trace.message.received_at if trace.message else 0
        delivery = trace.deliveries[outcome.subscription] = DeliveryTrace(at=at, attempts={})
    if outcome.attempt is not None:
        _add_attempt(delivery.attempts, outcome.attempt)
        _thin_out(delivery.attempts)
    if outcome.resend is not None:
        delivery.resends = _with_resend(delivery.resends, outcome.resend)
    if _supersedes(outcome, delivery, known=trace.message is not None):
        delivery.status = outcome.status
        delivery.generation = outcome.generation
        delivery.attempts_made = outcome.attempts
        delivery.at = outcome.at
        delivery.reason = outcome.reason
        delivery.due_at = outcome.due_at
        delivery.url = outcome.url


def received_at(trace: Trace | None, copy: bytes) -> int:
    """Return when a message was received (ms): from its document, else from an encoded copy; 0 when neither has it."""
    if trace is not None and trace.message is not None:
        return trace.message.received_at
    try:
        return decode_message(copy).received_at
    except msgspec.DecodeError:
        return 0


def is_finished(trace: Trace, subscription: str, generation: int) -> bool:
    """Whether a delivery needs no further POST in this generation: it is final, or a newer generation took over."""
    delivery = trace.deliveries.get(subscription)
    if delivery is None:
        return False
    return delivery.generation > generation or (delivery.generation == generation and delivery.status in FINAL)


def waits_unseen(trace: Trace, subscription: str) -> bool:
    """Whether a delivery is pending and no dispatcher has reported it."""
    delivery = trace.deliveries.get(subscription)
    return delivery is not None and delivery.status is Status.PENDING and not delivery.reason


def is_overtaken(trace: Trace, outcome: Outcome) -> bool:
    """Whether the trace, with this outcome merged, has an end or a newer generation, so that it makes no row."""
    delivery = trace.deliveries.get(outcome.subscription)
    if delivery is not None and delivery.status is outcome.status and delivery.generation == outcome.generation:
        return False
    return is_finished(trace, outcome.subscription, outcome.generation)


def finished_generation(outcome: Outcome) -> int:
    """Return the greatest generation that needs no further POST once this outcome is known; -1 for none."""
    return outcome.generation if outcome.status in FINAL else outcome.generation - 1


def matches(trace: Trace, selection: Selection, body: bytes | None = None) -> bool:
    """Whether a message meets a selection; its times are those that the id carries, ``before`` exclusive.

    A document whose message has not arrived meets none. Without the body, the conditions on it are left out: if the
    selection ``reads_bodies``, a message that meets all others has to be tested again with its body.
    """
    message = trace.message
    if message is None:
        return False
    made_at = id_time(trace.id)
    return (
        selection.destination in (None, trace.destination)
        and selection.biz_id in (None, message.biz_id)
        and selection.source in (None, message.source)
        and (selection.since is None or made_at >= selection.since)
        and (selection.before is None or made_at < selection.before)
        and (not selection.text or any(selection.text in text for text in (trace.id, message.biz_id, message.source)))
        and (selection.ref is None or _is_called(message, selection.ref))
        and (selection.header is None or has_header(message.headers, selection.header))
        and _has_status(trace, selection)
        and (body is None or _has_body(body, selection))
    )


def status_class_of(delivery: DeliveryTrace) -> StatusClass | None:
    """Return how the last attempt of a delivery ended; None while its state does not come from an attempt.

    One that is delivered counts as a success, though an attempt that was under way at the same time may have failed
    after it; one that is pending, or that a filter skipped, has no class.
    """
    if delivery.status is Status.DELIVERED:
        return StatusClass.SUCCESS
    last = last_attempt(delivery) if delivery.status in TRIED else None
    return class_of(last.status_code) if last is not None else None


def last_attempt(delivery: DeliveryTrace) -> Attempt | None:
    """Return the attempt of the greatest number; None when there is none."""
    return max(delivery.attempts.values(), key=_place, default=None)


def failure_of(delivery: DeliveryTrace) -> str | None:
    """Return the signature of a delivery that fails; None of any other."""
    return signature_of(delivery.reason) if delivery.status in FAILING else None


def is_chosen(delivery: DeliveryTrace, selection: Selection) -> bool:
    """Whether a delivery meets what a selection asks of one delivery."""
    return (
        selection.status in (None, delivery.status)
        and (not selection.undelivered or delivery.status in UNDELIVERED)
        and (selection.signature is None or failure_of(delivery) == selection.signature)
        and (selection.status_class is None or status_class_of(delivery) is selection.status_class)
        and (selection.error is None or _has_error(delivery, selection.error.casefold()))
    )


def _is_called(message: Message, ref: str) -> bool:
    """Whether an id, in any of its meanings, is one of this message's."""
    wanted = parse_ref(ref)
    return (
        (wanted.text != "" and wanted.text in (message.biz_id, message.key, message.idempotency_key))
        or (wanted.message_id != "" and wanted.message_id in (message.id, message.original_id))
        or (wanted.trace_id != "" and wanted.trace_id == trace_id_of(message.traceparent))
        or ((traced := ids_traced_as(ref)) is not None and traced[0] <= message.id <= traced[1])
    )


def _has_error(delivery: DeliveryTrace, text: str) -> bool:
    if delivery.status not in TRIED:
        return False
    last = last_attempt(delivery)
    return text in delivery.reason.casefold() or (last is not None and text in last.error.casefold())


def _has_body(body: bytes, selection: Selection) -> bool:
    return (selection.body_path is None or has_value(body, selection.body_path, selection.body_value)) and (
        not selection.body_text or has_text(body, selection.body_text)
    )


def _has_status(trace: Trace, selection: Selection) -> bool:
    if selection.subscription is not None:
        delivery = trace.deliveries.get(selection.subscription)
        return delivery is not None and is_chosen(delivery, selection)
    if selection.asks_how_it_went:
        return any(is_chosen(delivery, selection) for delivery in trace.deliveries.values())
    return selection.status in (None, trace.status)


def _precedes(shell: Message, size: int, other: Message, other_size: int) -> bool:
    """Whether a message without its body was received first; a tie is broken by the bytes, so that any order agrees."""
    if shell.received_at != other.received_at:
        return shell.received_at < other.received_at
    return (encode_message(shell), size) < (encode_message(other), other_size)


def _add_attempt(attempts: dict[str, Attempt], attempt: Attempt) -> None:
    known = attempts.setdefault(attempt.id, attempt)
    if known is not attempt and _encoder.encode(attempt) > _encoder.encode(known):
        attempts[attempt.id] = attempt


def _thin_out(attempts: dict[str, Attempt]) -> None:
    """Drop attempts in the middle, and answers of all but the last ones; the result is the same in any order."""
    if len(attempts) <= ANSWERS_KEPT:
        return
    ordered = sorted(attempts.values(), key=_place)
    for attempt in ordered[:-ANSWERS_KEPT]:
        if attempt.response:
            attempts[attempt.id] = msgspec.structs.replace(attempt, response=b"")
    for attempt in ordered[FIRST_KEPT:-LAST_KEPT]:
        del attempts[attempt.id]


def _with_resend(known: tuple[Resend, ...], new: Resend) -> tuple[Resend, ...]:
    """Return the resends with another one; of one that was written more than once the earliest counts."""
    by_place = {(resend.generation, resend.job): resend for resend in known}
    place = (new.generation, new.job)
    present = by_place.get(place, new)
    by_place[place] = min(new, present, key=_said)
    ordered = [by_place[each] for each in sorted(by_place)]
    return (*ordered[:FIRST_RESENDS_KEPT], *ordered[FIRST_RESENDS_KEPT:][-LAST_RESENDS_KEPT:])


def _said(resend: Resend) -> tuple[int, str, str]:
    return (resend.at, resend.by, resend.reason)


def _place(attempt: Attempt) -> tuple[int, int, str]:
    return (attempt.n, attempt.started_at, attempt.id)


def _is_implied(delivery: DeliveryTrace) -> bool:
    """Whether the delivery is as ``expected`` alone makes it: pending, with the time of the message."""
    return (
        delivery.status is Status.PENDING
        and not delivery.generation
        and not delivery.attempts_made
        and not (delivery.reason or delivery.due_at or delivery.url)
    )


def _supersedes(outcome: Outcome, delivery: DeliveryTrace, *, known: bool) -> bool:
    """Whether an outcome's state is newer, in a total order over all its fields; an implied state is the oldest."""
    new = (outcome.generation, RANK[outcome.status], outcome.attempts)
    old = (delivery.generation, RANK[delivery.status], delivery.attempts_made)
    if new != old:
        return new > old
    said = (outcome.reason, outcome.due_at, outcome.url)
    if new == _IMPLIED and said == _NOTHING:
        return not known and _is_implied(delivery) and outcome.at > delivery.at
    if _is_implied(delivery):
        return True
    return (outcome.at, *said) > (delivery.at, delivery.reason, delivery.due_at, delivery.url)


_IMPLIED: Final = (0, RANK[Status.PENDING], 0)
_NOTHING: Final = ("", 0, "")
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Trace)


def encode_trace(trace: Trace) -> bytes:
    """Return the document as bytes."""
    return _encoder.encode(trace)


def decode_trace(payload: bytes) -> Trace:
    """Undo ``encode_trace``."""
    return _decoder.decode(payload)


def attempts_in_order(delivery: DeliveryTrace) -> list[Attempt]:
    """Return a delivery's attempts by number, then by start."""
    return sorted(delivery.attempts.values(), key=_place)
