"""Responses about destinations and subscriptions, the actions on them, and whole sets of them."""

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
        """Return the response for a destination."""
        return msgspec.convert(DestinationBody.of(destination).model_dump(), cls)


class ExponentialView(View, kw_only=True):
    """Waits between attempts that grow exponentially."""

    first: str
    factor: float
    max: str


class AlarmLimitsView(View, kw_only=True):
    """Limits above which a subscription raises an alarm; null for the limit of the whole bus."""

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
        """Return a subscription for a principal who may configure it; ``secret`` is a new one."""
        shown = {
            "secret": secret or ("set" if subscription.secrets else None),
            "paused_reason": subscription.paused_reason,
        }
        return msgspec.convert(SubscriptionBody.of(subscription).model_dump() | shown, cls)


class VerdictView(View, kw_only=True):
    """Whether an action is allowed now, and if not, why and what to do."""

    allowed: bool
    why: str
    why_text: LocalizedText | None
    hint: str
    hint_text: LocalizedText | None


class DestinationActionsView(View, kw_only=True):
    """The actions on a destination; ``switch`` has a verdict for each transport that it could switch to."""

    change: VerdictView
    pause: VerdictView
    add_subscription: VerdictView
    resend: VerdictView
    remove: VerdictView
    switch: dict[TransportName, VerdictView]


class SubscriptionActionsView(View, kw_only=True):
    """The actions on a subscription."""

    change: VerdictView
    pause: VerdictView
    resume: VerdictView
    rotate: VerdictView
    resend: VerdictView
    sample: VerdictView
    remove: VerdictView


class TransportLineView(View, kw_only=True):
    """The backlog on a transport for one subscription; null where that is unknown."""

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
    """The number of receivers; ``items`` only for callers who may see the whole bus."""

    alive: int
    confirmed: int
    items: list[ReceiverView] | None


class TransportsView(Listing[TransportView], kw_only=True):
    """The transports of a destination, and the progress of its switch from one to another."""

    transport: TransportName
    since: str | None
    complete: bool | None
    unpublished_since: str | None
    receivers: ReceiversView


class StepView(View, kw_only=True):
    """One resource that a set created, changed or removed; ``waiting`` is how many messages a removal drops."""

    change: str
    resource: str
    fields: dict[str, Change]
    waiting: int | msgspec.UnsetType = msgspec.UNSET


class ConfigurationPutView(View, kw_only=True):
    """The changes by a whole set; new ``secrets`` are shown only here."""

    version: int
    dry_run: bool
    changes: list[StepView]
    secrets: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class ConfigurationView(View, kw_only=True):
    """The whole configuration as one set, without values that are the default."""

    version: int
    destinations: list[dict[str, Any]]
    rates: dict[str, float | None] | msgspec.UnsetType = msgspec.UNSET
    clusters: dict[str, str | None] | msgspec.UnsetType = msgspec.UNSET


class StoreRatesView(View, kw_only=True):
    """Store writes a second of each process; null for no limit."""

    receiver: float | None
    dispatcher: float | None
