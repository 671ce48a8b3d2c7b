"""The request that a subscriber receives (contract.md, "What a subscriber receives")."""

from __future__ import annotations

import sys

from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.domain.times import format_time
from bus.ports.poster import Poster, Target
from bus.security.signatures import Signer

USER_AGENT = "Pier/1"


class RequestMaker:
    """Everything about a subscription's requests that does not change from message to message.

    ``valid_until`` (ms) is when an old secret expires and this must be made anew.

    Raises
    ------
    EgressDenied, ValueError
        The URL or a constant header is not allowed.
    """

    def __init__(self, subscription: Subscription, poster: Poster, now: int) -> None:
        constant = {"user-agent": USER_AGENT, "bus-destination": subscription.destination, **subscription.headers}
        self.target: Target = poster.target(subscription.url, constant)
        self._constant = frozenset(name.lower() for name in constant)
        expiries = [secret.expires_at for secret in subscription.secrets if secret.expires_at > now]
        self.valid_until = min(expiries, default=sys.maxsize)
        secrets = subscription.signing_secrets(now)
        self._signer = Signer(secrets) if secrets else None

    def headers(self, message: Message, attempt: int, now: int) -> list[tuple[str, str]]:
        """Return the headers of one attempt; ``now`` in milliseconds since the epoch."""
        timestamp = now // 1000
        headers = [
            ("content-type", message.content_type),
            ("webhook-id", message.id),
            ("webhook-timestamp", str(timestamp)),
            ("bus-attempt", str(attempt)),
            ("bus-sent-at", format_time(message.sent_at)),
        ]
        if self._signer is not None:
            headers.append(("webhook-signature", self._signer.sign(message.id, timestamp, message.body)))
        if message.biz_id:
            headers.append(("bus-biz-id", message.biz_id))
        if message.key:
            headers.append(("bus-key", message.key))
        if message.traceparent:
            headers.append(("traceparent", message.traceparent))
            if message.tracestate:
                headers.append(("tracestate", message.tracestate))
        if message.headers:
            headers += [(name, value) for name, value in message.headers.items() if name.lower() not in self._constant]
        return headers
