"""A subscription's requests: its target, its constant headers, and its signatures."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bus.domain.delivery.batch import batch_body, batch_entry, batch_headers
from bus.domain.delivery.delivery import BatchMark
from bus.domain.delivery.request import constant_headers, message_headers
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.domain.tracing.context import TraceContext
from bus.domain.tracing.spans import StartedSpan
from bus.ports.poster import Poster, Target
from bus.security.signatures import Signer


class BatchRequest(NamedTuple):
    """A POST of several messages."""

    mark: BatchMark
    headers: list[tuple[str, str]]
    body: bytes


class RequestMaker:
    """The parts of a subscription's requests that are the same for every message.

    It is valid until the next secret expires (``holds``); then it must be made anew.

    Raises
    ------
    EgressDenied, ValueError
        The URL or a constant header is not allowed.
    """

    def __init__(self, subscription: Subscription, poster: Poster, now: int) -> None:
        constant = constant_headers(subscription)
        self.target: Target = poster.target(subscription.url, constant)
        self._constant = frozenset(name.lower() for name in constant)
        expiries = [secret.expires_at for secret in subscription.secrets if secret.expires_at > now]
        self._made_at, self._until = now, min(expiries, default=sys.maxsize)
        secrets = subscription.signing_secrets(now)
        self._signer = Signer(secrets) if secrets else None
        self._format = subscription.batch_format

    def holds(self, now: int) -> bool:
        """Whether it signs with the secrets valid at ``now`` (ms); False too for a time before it was made."""
        return self._made_at <= now < self._until

    def headers(
        self,
        message: Message,
        attempt: int,
        now: int,
        *,
        is_late: bool = False,
        context: TraceContext | None = None,
    ) -> list[tuple[str, str]]:
        """Return the headers of one attempt, whose span has ``context``; ``now`` in milliseconds since the epoch."""
        signer = self._signer
        signature = "" if signer is None else signer.sign(message.id, now // 1000, message.body)
        return message_headers(message, attempt, now, signature, self._constant, is_late=is_late, context=context)

    def batch(
        self, attempts: Sequence[tuple[Message, int]], ids: Iterator[str], now: int, span: StartedSpan | None = None
    ) -> BatchRequest:
        """Return the POST of several messages, each with the number of its attempt.

        It has an id of its own from ``ids``: the same messages never go together again for sure, and who takes a
        POST with a known id for a repetition would lose what is new in it.
        """
        mark = BatchMark(f"batch-{next(ids)}", len(attempts))
        contexts = span.messages if span is not None else [None] * len(attempts)
        entries = [batch_entry(*each, context) for each, context in zip(attempts, contexts, strict=True)]
        body = batch_body(entries, self._format)
        signature = "" if self._signer is None else self._signer.sign(mark.id, now // 1000, body)
        context = span.context if span is not None else None
        return BatchRequest(mark, batch_headers(mark, self._format, now, signature, context), body)
