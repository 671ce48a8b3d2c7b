"""Bodies of destinations, subscriptions, rates and clusters."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictFloat,
)

from admin.models.base import MAX_BODY, MOST_AT_ONCE, Body, Code, Duration, Overlap, Whole
from bus.domain.delivery.quota import DEFAULT_SHARE
from bus.domain.delivery.retry import (
    DEFAULT_SCHEDULE,
    MOST_DEAD_ON,
    RetryPolicy,
    check_dead_on,
    format_waits,
    parse_waits,
)
from bus.domain.destination import Destination, Ordering, TransportName
from bus.domain.durations import format_duration, parse_duration
from bus.domain.message import DEFAULT_MAX_BYTES
from bus.domain.routing_pattern import EVERY_KEY, check_pattern
from bus.domain.searching.masking import MOST_RULES, check_rules
from bus.domain.subscription import (
    LONGEST_TIMEOUT,
    MOST_IN_BATCH,
    PAUSED_BY_PERSON,
    AlarmLimits,
    BatchFormat,
    OnFailure,
    Secret,
    Subscription,
)

MOST_SUBSCRIPTIONS = 10_000
Owner = Annotated[str, Field(max_length=64, pattern=r"^[A-Za-z0-9_.@+-]*$")]


def _mask(rules: list[str]) -> list[str]:
    return list(check_rules(rules))


def _dead_on(statuses: list[int]) -> list[int]:
    return list(check_dead_on(statuses))


def _milliseconds(text: str | None) -> int | None:
    return parse_duration(text) if text is not None else None


class DestinationBody(Body):
    """A destination as a request body."""

    code: Code = ""
    transport: TransportName = TransportName.DIRECT
    cluster: None = None
    routing: None = None
    ordering: Ordering = Ordering.NONE
    retention_days: Whole = Field(default=30, ge=1, le=3650)
    store_rate: StrictFloat | None = Field(default=None, gt=0)
    spool_share: StrictFloat = Field(default=DEFAULT_SHARE, gt=0, le=1)
    rate: StrictFloat | None = Field(default=None, gt=0)
    burst: Whole | None = Field(default=None, ge=1, le=MOST_AT_ONCE)
    max_bytes: Whole = Field(default=DEFAULT_MAX_BYTES, ge=1, le=MAX_BODY)
    paused: StrictBool = False
    traced: StrictBool = False
    refuse_unchecked_keys: StrictBool = False
    owner: Owner = ""
    pv_min: Whole | None = Field(default=None, ge=1)
    pv_max: Whole | None = Field(default=None, ge=1)
    mask: Annotated[list[str], Field(max_length=MOST_RULES), AfterValidator(_mask)] = Field(default_factory=list)

    def to_domain(self, code: str, version: int) -> Destination:
        """Return the destination that this describes."""
        return Destination(
            code=code,
            transport=self.transport,
            ordering=self.ordering,
            retention_days=self.retention_days,
            store_rate=self.store_rate,
            spool_share=self.spool_share,
            rate=self.rate,
            burst=self.burst,
            max_bytes=self.max_bytes,
            paused=self.paused,
            traced=self.traced,
            refuse_unchecked_keys=self.refuse_unchecked_keys,
            owner=self.owner,
            pv_min=self.pv_min,
            pv_max=self.pv_max,
            mask=tuple(self.mask),
            version=version,
        )

    @classmethod
    def of(cls, destination: Destination) -> DestinationBody:
        """Return the body of a stored destination."""
        return cls(
            code=destination.code,
            transport=destination.transport,
            ordering=destination.ordering,
            retention_days=destination.retention_days,
            store_rate=destination.store_rate,
            spool_share=destination.spool_share,
            rate=destination.rate,
            burst=destination.burst,
            max_bytes=destination.max_bytes,
            paused=destination.paused,
            traced=destination.traced,
            refuse_unchecked_keys=destination.refuse_unchecked_keys,
            owner=destination.owner,
            pv_min=destination.pv_min,
            pv_max=destination.pv_max,
            mask=list(destination.mask),
        )


class ExponentialBody(Body):
    """Waits between attempts that grow exponentially."""

    first: Duration
    factor: StrictFloat = Field(ge=1, le=100)
    max: Duration


class AlarmsBody(Body):
    """Limits above which a subscription raises an alarm; null for the limit of the whole bus."""

    backlog: Whole | None = Field(default=None, ge=1)
    age: Duration | None = None
    p99: Duration | None = None
    error_rate: StrictFloat | None = Field(default=None, gt=0, le=1)

    def to_domain(self) -> AlarmLimits:
        """Return the limits that this describes."""
        return AlarmLimits(self.backlog, _milliseconds(self.age), _milliseconds(self.p99), self.error_rate)

    @classmethod
    def of(cls, limits: AlarmLimits) -> AlarmsBody:
        """Return the body of stored limits."""
        return cls(
            backlog=limits.backlog,
            age=format_duration(limits.age) if limits.age is not None else None,
            p99=format_duration(limits.p99) if limits.p99 is not None else None,
            error_rate=limits.error_rate,
        )


class SubscriptionBody(Body):
    """A subscription as a request body."""

    name: str = Field(default="", pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]{0,63})?$")
    url: str
    max_concurrency: Whole = Field(default=16, ge=1, le=10_000)
    rate: StrictFloat | None = Field(default=None, gt=0)
    timeout_seconds: StrictFloat = Field(default=10, ge=0.001, le=LONGEST_TIMEOUT / 1000)
    retry: Annotated[list[Duration], Field(min_length=1, max_length=100)] | ExponentialBody = Field(
        default_factory=lambda: list(DEFAULT_SCHEDULE)
    )
    retry_max_age: Duration = "7d"
    retry_max_attempts: Whole | None = Field(default=None, ge=1, le=1_000_000)
    dead_on: Annotated[list[Whole], Field(max_length=MOST_DEAD_ON), AfterValidator(_dead_on)] = Field(
        default_factory=list
    )
    secret: str | None = None
    filter: str | None = None
    headers: dict[str, str] = Field(default_factory=dict, max_length=64)
    batch: Whole = Field(default=1, ge=1, le=MOST_IN_BATCH)
    batch_format: BatchFormat = BatchFormat.NDJSON
    on_failure: OnFailure = OnFailure.BLOCK
    routing_pattern: Annotated[str, AfterValidator(check_pattern)] = EVERY_KEY
    stuck_after: Duration = "5m"
    owner: Owner = ""
    alarms: AlarmsBody = Field(default_factory=AlarmsBody)
    paused: StrictBool = False

    def to_domain(
        self, destination: str, name: str, *, secrets: tuple[Secret, ...], known: Subscription | None, now: int
    ) -> Subscription:
        """Return the subscription that this describes; ``known`` is the one that it replaces."""
        form = self.retry if isinstance(self.retry, list) else self.retry.model_dump()
        return Subscription(
            destination=destination,
            name=name,
            url=self.url,
            max_concurrency=self.max_concurrency,
            rate=self.rate,
            timeout=round(self.timeout_seconds * 1000),
            retry=RetryPolicy(parse_waits(form), parse_duration(self.retry_max_age), self.retry_max_attempts),
            dead_on=tuple(self.dead_on),
            secrets=secrets,
            filter=self.filter or None,
            headers=self.headers,
            batch=self.batch,
            batch_format=self.batch_format,
            on_failure=self.on_failure,
            routing_pattern=self.routing_pattern,
            stuck_after=parse_duration(self.stuck_after),
            owner=self.owner,
            alarms=self.alarms.to_domain(),
            paused=self.paused,
            paused_reason=self._paused_reason(known),
            doubted_until=known.doubted_until if known else 0,
            created_at=known.created_at if known else now,
            version=known.version if known else 0,
        )

    def _paused_reason(self, known: Subscription | None) -> str:
        if not self.paused:
            return ""
        return known.paused_reason if known is not None and known.paused else PAUSED_BY_PERSON

    @classmethod
    def of(cls, subscription: Subscription) -> SubscriptionBody:
        """Return the body of a stored subscription, without its secret."""
        retry: Any = format_waits(subscription.retry.waits)
        return cls(
            name=subscription.name,
            url=subscription.url,
            max_concurrency=subscription.max_concurrency,
            rate=subscription.rate,
            timeout_seconds=subscription.timeout / 1000,
            retry=retry,
            retry_max_age=format_duration(subscription.retry.max_age),
            retry_max_attempts=subscription.retry.max_attempts,
            dead_on=list(subscription.dead_on),
            filter=subscription.filter,
            headers=subscription.headers,
            batch=subscription.batch,
            batch_format=subscription.batch_format,
            on_failure=subscription.on_failure,
            routing_pattern=subscription.routing_pattern,
            stuck_after=format_duration(subscription.stuck_after),
            owner=subscription.owner,
            alarms=AlarmsBody.of(subscription.alarms),
            paused=subscription.paused,
        )


class DestinationSetBody(DestinationBody):
    """A destination with all its subscriptions, as a set has them."""

    subscriptions: list[SubscriptionBody] = Field(default_factory=list, max_length=MOST_SUBSCRIPTIONS)


class RotateBody(Body):
    """How long the old secret still signs as well; ``0s`` ends all former ones at once."""

    overlap: Overlap = "24h"


class RatesBody(Body):
    """Store writes a second of each process; null for no limit."""

    receiver: StrictFloat | None = Field(default=None, gt=0)
    dispatcher: StrictFloat | None = Field(default=None, gt=0)


class EmptiedBody(Body):
    """Whether a store was emptied on purpose; else the configuration that was restored into it is kept."""

    accept: StrictBool


class PreferenceBody(Body):
    """The cluster to publish to; null for each transport's own order, its primary first."""

    preferred: str | None


class ConfigurationBody(Body):
    """A whole set of the configuration; rates and the preferred cluster stay as they are when they are not sent.

    ``version`` is the one that the set was made from: put while another is in force it is refused; null for any.
    """

    version: Whole | None = None
    destinations: list[DestinationSetBody] = Field(default_factory=list, max_length=MOST_SUBSCRIPTIONS)
    rates: RatesBody | None = None
    clusters: PreferenceBody | None = None
