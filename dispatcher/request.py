"""A subscription's requests: its target, its constant headers, and its signatures."""

from __future__ import annotations

import sys

from bus.domain.delivery.request import constant_headers, message_headers
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.ports.poster import Poster, Target
from bus.security.signatures import Signer


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

    def holds(self, now: int) -> bool:
        """Whether it signs with the secrets valid at ``now`` (ms); False too for a time before it was made."""
        return self._made_at <= now < self._until

    def headers(self, message: Message, attempt: int, now: int) -> list[tuple[str, str]]:
        """Return the headers of one attempt; ``now`` in milliseconds since the epoch."""
        signer = self._signer
        signature = "" if signer is None else signer.sign(message.id, now // 1000, message.body)
        return message_headers(message, attempt, now, signature, self._constant)
