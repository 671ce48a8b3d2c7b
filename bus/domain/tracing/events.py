"""Trace events that each stage records for a message, and the blocks in which a process passes them on.

An emitter (one process) closes a block about every second. A block is one line of JSON; ``(emitter, seq)`` is its
permanent name, so a repeat is recognised, and a gap in ``seq`` is a lost block. docs/events.md has the format.
"""

from __future__ import annotations

import enum
from typing import Annotated, Final

import msgspec

from bus.domain.delivery.delivery import Delivery, Origin, Outcome, Status
from bus.domain.identity import ID_PATTERN
from bus.domain.message import Message

VERSION: Final = 1
BLOCK_EVENTS: Final = 1000
"""The most events in a block."""
BLOCK_BYTES: Final = 400 * 2**10
"""The longest line of a block; less than the largest record of any topic that the bus makes."""
LARGEST: Final = 2**40
"""Largest value of a number that is summed: sums of millions of them fit into 64 bits."""
CONFIRMED: Final = "confirmed"
FAILED: Final = "failed"
_LONGEST: Final = 512
_LONGEST_REASON: Final = 100

_Id = Annotated[str, msgspec.Meta(pattern=rf"\A{ID_PATTERN}\Z")]
_Text = Annotated[str, msgspec.Meta(max_length=_LONGEST)]
_Reason = Annotated[str, msgspec.Meta(max_length=_LONGEST_REASON)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
_Time = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]  # what reads events has no year 10000
_Microseconds = Annotated[int, msgspec.Meta(ge=-1, le=2**63 - 1)]
_Signed64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Stage(enum.StrEnum):
    """Stage of a message on its way."""

    SENT = "sent"  # on the producer's disk
    ACCEPTED = "accepted"  # durable at a receiver
    PUBLISHED = "published"  # a transport took it, or refused
    SETTLED = "settled"  # one outcome of one delivery is durable
    HANDED = "handed"  # a compensator handed it to a dispatcher, or published it at its time


class TraceEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """One thing that happened to a message.

    Attributes
    ----------
    at
        When it happened, in milliseconds since the epoch.
    expected
        The subscriptions expected at ``accepted``.
    status
        The delivery's after ``settled``; whether the transport took it at ``published``.
    attempt, attempt_id
        Number and id of the POST; 0 and empty without one.
    code
        The HTTP status; 0 for none.
    transport
        The transport of ``published``.
    bytes
        Length of the body.
    latency_us
        Of a first delivery, from when it could be delivered; -1 for none.
    duration_us
        Of the POST; -1 for none.
    replay
        Name of the replay that sent the message again.
    """

    stage: Stage
    at: _Time
    id: _Id
    destination: _Text
    subscription: _Text = ""
    expected: tuple[_Text, ...] = ()
    status: _Text = ""
    attempt: _Count = 0
    attempt_id: _Text = ""
    generation: _Count = 0
    origin: _Text = ""
    code: _Count = 0
    reason: _Reason = ""
    transport: _Text = ""
    bytes: _Count = 0
    biz_id: _Text = ""
    source: _Text = ""
    latency_us: _Microseconds = -1
    duration_us: _Microseconds = -1
    replay: _Text = ""


class LedgerRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Addition of a block to one bucket of the audit ledger; rows of a bucket add up over blocks.

    Attributes
    ----------
    stage
        That of the event, or ``expected``, or the status that the delivery was settled with.
    minute
        Start of the minute in the message's id, in milliseconds since the epoch.
    xor, sum
        Over the signed 64-bit XXH64 of the ids; the sum is modulo 2^64.
    latency
        Counts by bucket, see ``bus.domain.tracing.audit_ledger.bucket_of``.
    """

    stage: _Text
    destination: _Text
    subscription: _Text
    minute: _Time
    count: _Count
    xor: _Signed64
    sum: _Signed64
    latency: dict[int, _Count] = {}


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Events of one emitter and their additions to the ledger.

    One without events is a sign of life: nothing happened since the block before it.

    Attributes
    ----------
    emitter
        A UUIDv7, made when the process began.
    seq
        From 1, one more with each block.
    at
        When the block was closed, in milliseconds since the epoch.
    lost
        Events that the emitter has dropped since it began.
    last
        Whether the emitter ended with it: there is nothing behind it that could have been lost.
    """

    v: Annotated[int, msgspec.Meta(ge=VERSION, le=VERSION)]
    emitter: _Id
    role: _Text
    node: _Text
    seq: Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]
    at: _Time
    lost: _Count
    events: Annotated[list[TraceEvent], msgspec.Meta(max_length=BLOCK_EVENTS)]
    ledger: list[LedgerRow]
    last: bool = False


class _Size(msgspec.Struct):
    events: list[msgspec.Raw]


# Looked up once: an enumeration's own look-up is a tenth of what an event costs.
_ACCEPTED: Final = Stage.ACCEPTED
_PUBLISHED: Final = Stage.PUBLISHED
_SETTLED: Final = Stage.SETTLED
_DELIVERED: Final = Status.DELIVERED
_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Block)
_size_decoder: Final = msgspec.json.Decoder(_Size)


def encode_block(block: Block) -> bytes:
    """Return the block as one line without its end."""
    return _encoder.encode(block)


def decode_block(line: bytes) -> Block:
    """Undo ``encode_block``; raises ``msgspec.DecodeError`` for anything that is not exactly a block."""
    try:
        return _decoder.decode(line)
    except (UnicodeDecodeError, RecursionError) as error:
        raise msgspec.DecodeError(f"not a block: {error}") from error


def count_events(line: bytes) -> int:
    """Return how many events a line has; 0 for one that is no block."""
    try:
        return len(_size_decoder.decode(line).events)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0


# Events of every message are made with positional arguments: with keywords one costs ten times as much. Fields that are
# mostly empty are tested before anything is computed from them.


def accepted(message: Message) -> TraceEvent:
    """Return the event of a message that is durable at a receiver."""
    return TraceEvent(
        _ACCEPTED,
        message.received_at,
        message.id,
        message.destination,
        "",  # subscription
        message.expected,
        "",  # status
        0,  # attempt
        "",  # attempt_id
        0,  # generation
        "",  # origin
        0,  # code
        "",  # reason
        "",  # transport
        len(message.body),
        message.biz_id,
        message.source,
        replay=message.replay and _replay_of(message),
    )


def published(message: Message, transport: str, *, confirmed: bool, at: int) -> TraceEvent:
    """Return the event of a transport that took a message, or did not, at a time in milliseconds since the epoch."""
    return TraceEvent(
        _PUBLISHED,
        at,
        message.id,
        message.destination,
        "",  # subscription
        (),  # expected
        CONFIRMED if confirmed else FAILED,
        0,  # attempt
        "",  # attempt_id
        0,  # generation
        "",  # origin
        0,  # code
        "",  # reason
        transport,
    )


def settled(outcome: Outcome, message: Message) -> TraceEvent:
    """Return the event of a delivery's outcome, once that is durable."""
    attempt = outcome.attempt
    if attempt is None:
        return _settled_alone(outcome, message)
    at, ready_at, reason = outcome.at, outcome.ready_at, outcome.reason
    is_first = ready_at and outcome.status is _DELIVERED
    return TraceEvent(
        _SETTLED,
        at,
        outcome.message_id,
        outcome.destination,
        outcome.subscription,
        (),  # expected
        outcome.status,
        attempt.n,
        attempt.id,
        outcome.generation,
        attempt.by,
        attempt.status_code or 0,
        reason and reason[:_LONGEST_REASON],
        "",  # transport
        len(message.body),
        message.biz_id,
        message.source,
        -1 if not is_first else (at - ready_at) * 1000 if at > ready_at else 0,
        int(attempt.duration * 1000),
        message.replay and _replay_of(message),
    )


def _settled_alone(outcome: Outcome, message: Message) -> TraceEvent:
    """Return the event of a state without a POST."""
    return msgspec.structs.replace(
        canceled(outcome),
        origin=Origin.TRANSPORT,
        bytes=len(message.body),
        biz_id=message.biz_id,
        source=message.source,
        replay=_replay_of(message),
    )


def canceled(outcome: Outcome) -> TraceEvent:
    """Return the event of a delivery canceled by a store or a person; of its message it has only the id."""
    return TraceEvent(
        stage=Stage.SETTLED,
        at=outcome.at,
        id=outcome.message_id,
        destination=outcome.destination,
        subscription=outcome.subscription,
        status=outcome.status,
        generation=outcome.generation,
        reason=outcome.reason[:_LONGEST_REASON],
    )


def _replay_of(message: Message) -> str:
    """Return the name of the replay that sent a message; empty for none."""
    return message.replay.partition(" ")[0]


def handed(delivery: Delivery, at: int) -> TraceEvent:
    """Return the event of a compensator that handed a due or stuck delivery to a dispatcher (ms since the epoch)."""
    return TraceEvent(
        stage=Stage.HANDED,
        at=at,
        id=delivery.message.id,
        destination=delivery.message.destination,
        subscription=delivery.subscription,
        attempt=delivery.attempts,
        generation=delivery.generation,
        origin=delivery.by,
    )


def handed_on(message: Message, at: int) -> TraceEvent:
    """Return the event of a compensator that published a message at its due time (ms since the epoch)."""
    return TraceEvent(stage=Stage.HANDED, at=at, id=message.id, destination=message.destination)
