"""A message: what a producer sent, and what the receiver stamped on it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from bus.errors import InvalidDestination, MessageTooLarge
from bus.localized_text import localized

DEFAULT_MAX_BYTES: Final = 1_048_576
_CODE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False, omit_defaults=False):
    """One message.

    Attributes
    ----------
    id
        UUIDv7, made by the SDK or the receiver.
    body
        The exact bytes that the producer gave and each subscriber gets.
    sent_at, received_at, deliver_at
        Milliseconds since the epoch; 0 when unknown or not asked for.
    traceparent, tracestate
        W3C trace context, passed through.
    expected
        Names of the subscriptions in force when the receiver accepted the message.
    retention_days
        The retention class, which with the day of the id names the store's partition.
    original_id
        The id that the SDK gave first, when a receiver refused that one as too old.
    idempotency_key
        The producer's own key for "this is the same request".
    edited_from
        The id of the message of which a person made this one by editing it.
    replay
        The mark of ``bus.domain.replay``, when a replay sent an earlier message again as this one.
    epoch
        Of a strictly ordered destination, that of who wrote it to a group of brokers (`bus.domain.ordering.chain`).
    is_late
        It comes behind younger ones of its order: it is resent, or was written again since others had passed it.
    claim
        The name under which receivers keep the idempotency key, so that it is durable with the message; empty without.
    """

    id: str
    destination: str
    body: bytes
    content_type: str = "application/octet-stream"
    sent_at: int = 0
    received_at: int = 0
    source: str = ""
    biz_id: str = ""
    key: str = ""
    routing_key: str = ""
    headers: dict[str, str] = {}
    deliver_at: int = 0
    traceparent: str = ""
    tracestate: str = ""
    expected: tuple[str, ...] = ()
    retention_days: int = 30
    original_id: str = ""
    idempotency_key: str = ""
    edited_from: str = ""
    replay: str = ""
    epoch: int = 0
    is_late: bool = False
    claim: str = ""

    @property
    def ready_at(self) -> int:
        """When it could be delivered first, in milliseconds since the epoch."""
        return max(self.received_at, self.deliver_at)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Message)


def encode_message(message: Message) -> bytes:
    """Return the form in which a message travels inside the bus and rests in spools."""
    return _encoder.encode(message)


def decode_message(payload: bytes) -> Message:
    """Undo ``encode_message``; raises ``msgspec.DecodeError`` when the bytes are something else."""
    try:
        return _decoder.decode(payload)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"text that is not UTF-8: {error}") from error


def check_size(body: bytes, headers: Mapping[str, str], limit: int) -> None:
    """Raise ``MessageTooLarge`` when the body and the own headers together have more bytes than a destination takes."""
    size = len(body)
    if headers:
        size += sum(len(name) + len(value.encode()) for name, value in headers.items())
    if size > limit:
        raise MessageTooLarge(
            localized("body and headers have {size} bytes; the limit is {limit}", size=size, limit=limit),
            hint=localized("send a reference to it, or raise max_bytes of the destination, and of the producer"),
            field="body" if len(body) > limit else "headers",
        )


def check_destination(code: str) -> str:
    """Return the code when it could name a destination.

    Raises
    ------
    InvalidDestination
        It is empty, too long, or has a character that is not allowed.
    """
    if not _CODE.fullmatch(code):
        raise InvalidDestination(
            localized(
                "destination {code} is not 1-128 of a-z A-Z 0-9 . _ - (not starting with - or .)", code=repr(code[:140])
            ),
            field="destination",
        )
    return code
