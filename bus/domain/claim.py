"""The first use of an Idempotency-Key: which message it stands for, and the document that keeps it for a day."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from bus.domain.message import Message
from bus.domain.times import day_of

IDEMPOTENCY: Final = "idempotency"
"""The collection of these documents, whose keys begin with the day of the first use."""


class Claim(msgspec.Struct, frozen=True):
    """First request with an Idempotency-Key: its id, its body, and its time."""

    message_id: str
    body: str
    at: int


def claim_of(message: Message) -> Claim:
    """Return the claim of the key under which a message was accepted."""
    return Claim(message.id, digest(message.body), message.received_at)


def digest(body: bytes) -> str:
    """Return the hash by which bodies are compared."""
    return hashlib.sha256(body).hexdigest()


def document_key(scope: str, at: int) -> str:
    """Return the name of the document of a key that was first used at a time (ms)."""
    return f"{day_of(at)}/{scope}"
