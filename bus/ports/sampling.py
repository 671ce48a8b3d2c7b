"""One message that a person has sent to a subscriber now, to see what it answers."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bus.domain.message import Message
from bus.ports.poster import Phases

SAMPLE_HEADER = "bus-sample"
PERMIT_PATIENCE = 2.0
"""Seconds for which a sample waits for a slot of its subscription."""


class SampleResult(msgspec.Struct, frozen=True, kw_only=True):
    """Request and answer of a sample delivery; or, with ``refused``, why nothing was sent.

    Attributes
    ----------
    headers
        Of the request, all of them, as they went over the wire; the signature among them.
    body
        Of the request, where it is not the message's own: a batch of one.
    status, error, failure
        The answer's status; or what went wrong, and its kind.
    duration, phases
        Milliseconds.
    answer
        The first bytes of the answer's body, of ``answer_bytes``.
    node
        Of the dispatcher.
    """

    refused: str = ""
    url: str = ""
    headers: list[tuple[str, str]] = []
    body: bytes | None = None
    status: int | None = None
    failure: str = ""
    error: str = ""
    duration: float = 0.0
    phases: Phases = Phases(None, None, None, None, None, None)
    answer_headers: list[tuple[str, str]] = []
    answer: bytes = b""
    answer_bytes: int = 0
    node: str = ""


class SamplePoster(Protocol):
    """A dispatcher as the sender of sample POSTs."""

    async def sample(self, message: Message, subscription: str) -> SampleResult:
        """POST a message to a subscriber once, in a slot of its subscription, in any state of its breaker.

        Nothing of it is recorded, counted or retried, and neither a pause nor the filter stops it. A network error
        is returned as a result. Takes the subscription's time-out and ``PERMIT_PATIENCE`` at most.
        """
        ...
