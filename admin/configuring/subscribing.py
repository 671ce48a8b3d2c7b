"""A subscription as a request body: its validation, its secrets, and its representation in responses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from admin.models.configuration import SubscriptionBody
from bus.domain.delivery.filters import Filter
from bus.domain.headers import check_headers
from bus.domain.subscription import Secret, Subscription
from bus.errors import InvalidMessage
from bus.localized_text import text_of_error
from bus.security.egress import EgressPolicy
from bus.security.signatures import Signer, new_secret

AUTO: Final = "auto"


def check(egress: EgressPolicy, body: SubscriptionBody) -> None:
    """Refuse settings with which a dispatcher could not deliver; raises ``InvalidMessage`` or ``EgressDenied``."""
    egress.check_url(body.url)
    _field("headers", lambda: check_headers(body.headers))
    if body.filter:
        expression = body.filter
        _field("filter", lambda: Filter(expression))
    if not isinstance(body.retry, list):
        _field("retry", lambda: body.to_domain("x", "x", secrets=(), known=None, now=0))
    if body.secret not in (None, AUTO):
        secret = str(body.secret)
        _field("secret", lambda: Signer([secret]))


def _field(name: str, checked: Callable[[], object]) -> None:
    try:
        checked()
    except ValueError as error:
        raise InvalidMessage(text_of_error(error), field=name) from error


def secrets_of(wanted: str | None, known: Subscription | None) -> tuple[tuple[Secret, ...], str | None]:
    """Return the secrets to store, and the new one if one was generated."""
    if wanted is None:
        return (), None
    if wanted != AUTO:
        return (Secret(wanted),), None
    if known is not None and known.secrets:
        return known.secrets, None
    made = new_secret()
    return (Secret(made),), made


def whole(subscription: Subscription | None) -> dict[str, Any]:
    """Return all settings of a subscription, its secrets included: to compare, not to show."""
    if subscription is None:
        return {}
    found = SubscriptionBody.of(subscription).model_dump()
    found["secret"] = [secret.value for secret in subscription.secrets] or None
    found["paused_reason"] = subscription.paused_reason
    return found
