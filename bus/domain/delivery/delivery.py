"""A delivery: one message for one subscription; an attempt: one POST of it; an outcome: its result.

States: ``pending -> delivered | retrying | skipped | canceled``;
``retrying -> delivered | dead | parked | canceled``; a person sets any but ``pending`` to ``resend``.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

import msgspec

from bus.domain.delivery.receipt import Receipt
from bus.domain.message import Message, encode_message


class Status(enum.StrEnum):
    """State of a delivery; that of a message is the worst of its deliveries."""

    PENDING = "pending"
    RETRYING = "retrying"
    RESEND = "resend"
    DELIVERED = "delivered"
    SKIPPED = "skipped"
    CANCELED = "canceled"
    PARKED = "parked"
    DEAD = "dead"


# Inside one generation the greater rank wins, whatever the order in which outcomes arrive.
RANK: Final = {
    Status.PENDING: 0,
    Status.RESEND: 1,
    Status.RETRYING: 2,
    Status.PARKED: 3,
    Status.DEAD: 4,
    Status.CANCELED: 5,
    Status.SKIPPED: 6,
    Status.DELIVERED: 7,
}

# How bad a state is for the message as a whole, the worst first.
WORST_FIRST: Final = (
    Status.DEAD,
    Status.PARKED,
    Status.RETRYING,
    Status.RESEND,
    Status.PENDING,
    Status.CANCELED,
    Status.DELIVERED,
    Status.SKIPPED,
)
SEVERITY: Final = {status: len(WORST_FIRST) - place for place, status in enumerate(WORST_FIRST)}
FINAL: Final = frozenset({Status.DELIVERED, Status.SKIPPED, Status.CANCELED, Status.DEAD, Status.PARKED})
"""States in which nothing more happens by itself."""
UNDELIVERED: Final = frozenset({Status.PENDING, Status.RETRYING, Status.RESEND, Status.PARKED, Status.DEAD})
"""States in which a delivery may still be delivered: it continues, or waits for a person."""
TRIED: Final = frozenset({Status.RETRYING, Status.RESEND, Status.CANCELED, Status.PARKED, Status.DEAD})
"""States other than delivered that attempts may have led to, so that the last attempt describes the delivery."""


class Origin(enum.StrEnum):
    """Reason for an attempt."""

    TRANSPORT = "road"
    RETRY = "retry"
    STUCK = "stuck"
    RESEND = "resend"


class BatchMark(NamedTuple):
    """Which POST a message went with: the ``webhook-id`` of the POST, and how many messages it had."""

    id: str
    size: int


class Attempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One POST.

    Attributes
    ----------
    id
        Unique; a repeated report of the same attempt changes nothing.
    n
        From 1, going on over resends; one that a resend overtook before its POST has no attempt.
    started_at
        Milliseconds since the epoch.
    duration
        Milliseconds of the whole call.
    phases
        dns, connect, tls, send, first byte, receive in milliseconds; None where a phase did not happen.
    response
        The first bytes of a failed answer's body.
    node
        The dispatcher that made it.
    generation
        That of its delivery: which resend it belongs to, 0 for none.
    taken_at
        When the dispatcher took the delivery from the transport (ms); 0 when it was handed over instead.
    batch
        The POST that it was part of, of a subscription that takes batches.
    is_late
        Whether it went out of the order of its key: resent, or found again, behind younger ones.
    receipt
        Source from which the dispatcher received the message, when its broker reports it.
    """

    id: str
    n: int
    by: Origin
    started_at: int
    duration: float
    phases: tuple[float | None, ...]
    status_code: int | None
    error: str
    response: bytes
    node: str
    generation: int = 0
    taken_at: int = 0
    batch: BatchMark | None = None
    is_late: bool = False
    receipt: Receipt | None = None


class Resend(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Origin of a resend.

    Attributes
    ----------
    generation
        The one that it began.
    job
        The id of the job that did it; empty where there is none.
    by
        User who requested it.
    reason
        Why, in their words.
    at
        Milliseconds since the epoch.
    """

    generation: int
    job: str
    by: str
    reason: str
    at: int


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """One message for one subscription, on its way to the subscriber.

    Attributes
    ----------
    generation
        0 on the transport, raised by each resend.
    attempts
        POSTs made so far, over all generations.
    tries
        Failures so far in this generation.
    since
        When this generation began, in milliseconds since the epoch; retries' age counts from here.
    handed_over
        It did not come by the transport.
    is_suspect
        An earlier life, or another process, may have finished it: the store is asked before the POST.
    order_key, place
        Place in the order of its key (`bus.domain.destination.Ordering`); ``place`` 0 for one in no order.
    """

    message: Message
    subscription: str
    generation: int = 0
    attempts: int = 0
    tries: int = 0
    since: int = 0
    by: Origin = Origin.TRANSPORT
    handed_over: bool = False
    order_key: str = ""
    place: int = 0
    is_suspect: bool = False


class Outcome(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Outcome of a delivery; one durable record in the dispatcher's spool.

    Attributes
    ----------
    at
        When it was decided, in milliseconds since the epoch.
    reason
        Why, in words for people; empty for a plain success.
    attempt
        The POST; None when the state changed without one (skipped, canceled).
    due_at
        When to try again; 0 unless the status is ``retrying`` or ``resend``.
    message
        The whole encoded message while the delivery is unfinished, or holds up others, so that a retry never waits for
        a store write.
    ready_at
        When the message could be delivered first, with the first success of the transport; else 0.
    resend
        Origin of the resend, when this is the beginning of one.
    order_key, place
        Place in an order, ``place`` 0 for one that is in none. With a place, an outcome that carries the
        message holds up those behind it: one that is dead, until a person has decided.
    owner, lease_until
        Process that makes the next attempt, and until when (ms) no other may; set on the way to the store.
    """

    message_id: str
    destination: str
    subscription: str
    retention_days: int
    url: str
    status: Status
    generation: int
    at: int
    reason: str = ""
    attempt: Attempt | None = None
    due_at: int = 0
    attempts: int = 0
    tries: int = 0
    since: int = 0
    message: bytes = b""
    ready_at: int = 0
    resend: Resend | None = None
    order_key: str = ""
    place: int = 0
    owner: str = ""
    lease_until: int = 0


class Compensation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Unfinished work by due time: a delivery to retry, or with an empty subscription a message to publish.

    While ``lease_until`` is ahead, ``owner`` has it, and ``epoch`` fences who leased it. ``set_at`` is when
    ``due_at`` or ``lease_until`` was set; where that is ahead, the clock was put back since.

    A row with a ``place`` belongs to the dispatcher that keeps the order of ``order_key``, and is never leased;
    ``due_at`` 0 says that it is dead and holds up those behind it.
    """

    message_id: str
    destination: str
    subscription: str
    retention_days: int
    generation: int
    attempts: int
    tries: int
    since: int
    due_at: int
    by: Origin
    message: bytes
    epoch: int = 0
    lease_until: int = 0
    set_at: int = 0
    order_key: str = ""
    place: int = 0
    owner: str = ""


_outcome_encoder: Final = msgspec.msgpack.Encoder()
_outcome_decoder: Final = msgspec.msgpack.Decoder(Outcome)
_delivery_encoder: Final = msgspec.msgpack.Encoder()
_delivery_decoder: Final = msgspec.msgpack.Decoder(Delivery)


def encode_outcome(outcome: Outcome) -> bytes:
    """Return the form in which an outcome rests in the dispatcher's spool."""
    return _outcome_encoder.encode(outcome)


def decode_outcome(payload: bytes) -> Outcome:
    """Undo ``encode_outcome``; raises ``msgspec.DecodeError`` when the bytes are something else."""
    try:
        return _outcome_decoder.decode(payload)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"text that is not UTF-8: {error}") from error


def encode_delivery(delivery: Delivery) -> bytes:
    """Return the form in which a delivery goes from process to process."""
    return _delivery_encoder.encode(delivery)


def decode_delivery(payload: bytes) -> Delivery:
    """Undo ``encode_delivery``; raises ``msgspec.DecodeError`` when the bytes are something else."""
    try:
        return _delivery_decoder.decode(payload)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"text that is not UTF-8: {error}") from error


def untried_row(message: Message, subscription: str, now: int, by: Origin) -> Compensation:
    """Return the row of a delivery that was never attempted, due now (ms)."""
    return Compensation(
        message_id=message.id,
        destination=message.destination,
        subscription=subscription,
        retention_days=message.retention_days,
        generation=0,
        attempts=0,
        tries=0,
        since=now,
        due_at=now,
        by=by,
        message=encode_message(message),
        set_at=now,
    )


def due_row(message: Message) -> Compensation:
    """Return the row of a message to publish at its ``deliver_at``."""
    row = untried_row(message, "", message.received_at, Origin.TRANSPORT)
    return msgspec.structs.replace(row, due_at=message.deliver_at)


def rewound(row: Compensation, now: int) -> Compensation:
    """Return a row as if it were set now (ms): it is due, and leased, for as long as it was to be.

    The due time of a message to publish was chosen by its producer, and stays.
    """
    ahead = row.set_at - now
    due_at = row.due_at - ahead if row.subscription else row.due_at
    return msgspec.structs.replace(row, due_at=due_at, lease_until=max(0, row.lease_until - ahead), set_at=now)


_CARRIED_ON_BY: Final = {Status.RESEND: Origin.RESEND, Status.PENDING: Origin.TRANSPORT}


def compensation_of(outcome: Outcome) -> Compensation | None:
    """Return the row that carries an unfinished delivery on, or holds up its key; None when the outcome ends both."""
    if outcome.status not in (Status.RETRYING, Status.RESEND) and not (outcome.place and outcome.message):
        return None
    return Compensation(
        message_id=outcome.message_id,
        destination=outcome.destination,
        subscription=outcome.subscription,
        retention_days=outcome.retention_days,
        generation=outcome.generation,
        attempts=outcome.attempts,
        tries=outcome.tries,
        since=outcome.since,
        due_at=outcome.due_at,
        by=_CARRIED_ON_BY.get(outcome.status, Origin.RETRY),
        message=outcome.message,
        lease_until=outcome.lease_until,
        set_at=outcome.at,
        order_key=outcome.order_key,
        place=outcome.place,
        owner=outcome.owner,
    )
