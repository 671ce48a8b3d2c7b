"""Destinations, subscriptions, what may be done to them, and whole sets of these."""

from __future__ import annotations

from typing import Any

import msgspec

from admin.models.configuration import DestinationBody, SubscriptionBody
from admin.models.responses.base import Listing, View
from bus.domain.audit import Change
from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.subscription import BatchFormat, OnFailure, Subscription
from bus.localized_text import LocalizedText


class DestinationView(View, kw_only=True):
    """A destination as it is in force."""

    code: str
    transport: TransportName
    cluster: None
    routing: None
    ordering: Ordering
    retention_days: int
    store_rate: float | None
    spool_share: float
    rate: float | None
    burst: int | None
    max_bytes: int
    paused: bool
    traced: bool
    refuse_unchecked_keys: bool
    owner: str
    pv_min: int | None
    pv_max: int | None
    mask: list[str]

    @classmethod
    def of(cls, destination: Destination) -> DestinationView:
        """Return a destination as people read it."""
        return msgspec.convert(DestinationBody.of(destination).model_dump(), cls)


class ExponentialView(View, kw_only=True):
    """Waits between attempts that grow exponentially."""

    first: str
    factor: float
    max: str


class AlarmLimitsView(View, kw_only=True):
    """From where on a subscription is an alarm; null for what the whole bus has."""

    backlog: int | None
    age: str | None
    p99: str | None
    error_rate: float | None


class SubscriptionView(View, kw_only=True):
    """A subscription as it is in force; ``secret`` is ``set`` if there is one, and in clear only once, when made."""

    name: str
    url: str
    max_concurrency: int
    rate: float | None
    timeout_seconds: float
    retry: list[str] | ExponentialView
    retry_max_age: str
    retry_max_attempts: int | None
    dead_on: list[int]
    secret: str | None
    filter: str | None
    headers: dict[str, str]
    batch: int
    batch_format: BatchFormat
    on_failure: OnFailure
    routing_pattern: str
    stuck_after: str
    owner: str
    alarms: AlarmLimitsView
    paused: bool
    paused_reason: str

    @classmethod
    def of(cls, subscription: Subscription, *, secret: str | None = None) -> SubscriptionView:
        """Return a subscription as a principal who may configure it reads it; ``secret`` is one that was made now."""
        shown = {
            "secret": secret or ("set" if subscription.secrets else None),
            "paused_reason": subscription.paused_reason,
        }
        return msgspec.convert(SubscriptionBody.of(subscription).model_dump() | shown, cls)


class VerdictView(View, kw_only=True):
    """Whether something may be done now, and if not, why and what to do."""

    allowed: bool
    why: str
    why_text: LocalizedText | None
    hint: str
    hint_text: LocalizedText | None


class DestinationActionsView(View, kw_only=True):
    """What may be done to a destination; ``switch`` has a verdict for each transport that it could switch to."""

    change: VerdictView
    pause: VerdictView
    add_subscription: VerdictView
    resend: VerdictView
    remove: VerdictView
    switch: dict[TransportName, VerdictView]


class SubscriptionActionsView(View, kw_only=True):
    """What may be done to a subscription."""

    change: VerdictView
    pause: VerdictView
    resume: VerdictView
    rotate: VerdictView
    resend: VerdictView
    sample: VerdictView
    remove: VerdictView


class TransportLineView(View, kw_only=True):
    """What waits on a transport for one subscription; null where that is not known."""

    subscription: str
    waiting: int | None
    oldest: str | None


class TransportView(View, kw_only=True):
    """One transport of a destination: ``present``, ``former`` or ``fallback``."""

    transport: str
    role: str
    left_at: str | None
    attached_until: str | None
    drained: bool | None
    trouble: str
    trouble_text: LocalizedText | None
    subscriptions: list[TransportLineView]


class ReceiverView(View, kw_only=True):
    """A receiver, and whether it publishes by the current configuration."""

    owner: str
    node: str
    url: str
    started_at: str
    confirmed: bool


class ReceiversView(View, kw_only=True):
    """How many receivers there are; ``items`` for those who may see the whole bus."""

    alive: int
    confirmed: int
    items: list[ReceiverView] | None


class TransportsView(Listing[TransportView], kw_only=True):
    """How far a destination has switched from one transport to another."""

    transport: TransportName
    since: str | None
    complete: bool | None
    unpublished_since: str | None
    receivers: ReceiversView


class StepView(View, kw_only=True):
    """One resource that a set made, changed or removed; ``waiting`` is how many messages a removal drops."""

    change: str
    resource: str
    fields: dict[str, Change]
    waiting: int | msgspec.UnsetType = msgspec.UNSET


class ConfigurationPutView(View, kw_only=True):
    """What putting a whole set changed; ``secrets`` that were made are shown once."""

    version: int
    dry_run: bool
    changes: list[StepView]
    secrets: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class ConfigurationView(View, kw_only=True):
    """All that may be configured as one set; what has its default is left out."""

    version: int
    destinations: list[dict[str, Any]]
    rates: dict[str, float | None] | msgspec.UnsetType = msgspec.UNSET
    clusters: dict[str, str | None] | msgspec.UnsetType = msgspec.UNSET


class StoreRatesView(View, kw_only=True):
    """Store writes a second of each process; null for no limit."""

    receiver: float | None
    dispatcher: float | None
