"""Bodies of the admin API; unknown fields are refused, fields not sent keep their defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    StrictFloat,
    ValidationInfo,
    field_validator,
    model_validator,
)

from bus.domain.conditions import StatusClass, parse_header, parse_path
from bus.domain.delivery import Status
from bus.domain.destination import Destination, TransportName
from bus.domain.durations import format_duration, parse_duration
from bus.domain.masking import MOST_RULES, check_rules
from bus.domain.message import DEFAULT_MAX_BYTES, check_destination
from bus.domain.retry import DEFAULT_SCHEDULE, RetryPolicy, format_waits, parse_waits
from bus.domain.routing_pattern import EVERY_KEY, check_pattern
from bus.domain.selection import Selection
from bus.domain.signature import MOST_CHARACTERS
from bus.domain.subscription import Secret, Subscription
from bus.domain.times import format_time, parse_time
from bus.errors import InvalidDestination
from bus.security.keyring import StoredUser
from bus.security.passwords import LONGEST

MAX_BODY = 16 * 2**20


def _code(value: str) -> str:
    try:
        return check_destination(value)
    except InvalidDestination as error:
        raise ValueError(str(error)) from error


def _duration(value: str) -> str:
    if parse_duration(value) <= 0:
        raise ValueError("the duration must be above zero")
    return value


def _time(value: str) -> str:
    parse_time(value)
    return value


def _header(value: str) -> str:
    parse_header(value)
    return value


def _path(value: str) -> str:
    parse_path(value)
    return value


def _mask(rules: list[str]) -> list[str]:
    return list(check_rules(rules))


def _whole(value: Any) -> Any:
    """Take 16.0 for 16, as JSON does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Code = Annotated[str, AfterValidator(_code)]
Whole = Annotated[int, Strict(), BeforeValidator(_whole)]
Duration = Annotated[str, AfterValidator(_duration)]
Time = Annotated[str, AfterValidator(_time)]
OutcomeName = Literal["waiting", "delivered", "failed", "skipped", "missing", "canceled"]
Some = Annotated[str, Field(min_length=1, max_length=4096)]


class Body(BaseModel):
    """A body whose fields are all known; numbers and flags are JSON's own, no text that reads like one."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, allow_inf_nan=False)


class DestinationBody(Body):
    """A destination as people write it."""

    code: Code = ""
    transport: TransportName = TransportName.DIRECT
    cluster: None = None
    routing: None = None
    ordering: Literal["none"] = "none"
    retention_days: Whole = Field(default=30, ge=1, le=3650)
    store_rate: StrictFloat | None = Field(default=None, gt=0)
    max_bytes: Whole = Field(default=DEFAULT_MAX_BYTES, ge=1, le=MAX_BODY)
    paused: StrictBool = False
    mask: Annotated[list[str], Field(max_length=MOST_RULES), AfterValidator(_mask)] = Field(default_factory=list)

    def to_domain(self, code: str, version: int) -> Destination:
        """Return the destination that this describes."""
        return Destination(
            code=code,
            transport=self.transport,
            retention_days=self.retention_days,
            store_rate=self.store_rate,
            max_bytes=self.max_bytes,
            paused=self.paused,
            mask=tuple(self.mask),
            version=version,
        )

    @classmethod
    def of(cls, destination: Destination) -> DestinationBody:
        """Return a destination as people read it."""
        return cls(
            code=destination.code,
            transport=destination.transport,
            retention_days=destination.retention_days,
            store_rate=destination.store_rate,
            max_bytes=destination.max_bytes,
            paused=destination.paused,
            mask=list(destination.mask),
        )


class ExponentialBody(Body):
    """Waits that grow."""

    first: Duration
    factor: StrictFloat = Field(ge=1, le=100)
    max: Duration


class SubscriptionBody(Body):
    """A subscription as people write it."""

    name: str = Field(default="", pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]{0,63})?$")
    url: str
    max_concurrency: Whole = Field(default=16, ge=1, le=10_000)
    rate: StrictFloat | None = Field(default=None, gt=0)
    timeout_seconds: StrictFloat = Field(default=10, ge=0.001, le=600)
    retry: Annotated[list[Duration], Field(min_length=1, max_length=100)] | ExponentialBody = Field(
        default_factory=lambda: list(DEFAULT_SCHEDULE)
    )
    retry_max_age: Duration = "7d"
    retry_max_attempts: Whole | None = Field(default=None, ge=1, le=1_000_000)
    secret: str | None = None
    filter: str | None = None
    headers: dict[str, str] = Field(default_factory=dict, max_length=64)
    batch: Literal[1] = 1
    on_failure: Literal["block"] = "block"
    routing_pattern: Annotated[str, AfterValidator(check_pattern)] = EVERY_KEY
    stuck_after: Duration = "5m"
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
            secrets=secrets,
            filter=self.filter or None,
            headers=self.headers,
            routing_pattern=self.routing_pattern,
            stuck_after=parse_duration(self.stuck_after),
            paused=self.paused,
            paused_reason=self._paused_reason(known),
            created_at=known.created_at if known else now,
            version=known.version if known else 0,
        )

    def _paused_reason(self, known: Subscription | None) -> str:
        if not self.paused:
            return ""
        return known.paused_reason if known is not None and known.paused else "paused by a person"

    @classmethod
    def of(cls, subscription: Subscription) -> SubscriptionBody:
        """Return a subscription as people read it, without its secret."""
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
            filter=subscription.filter,
            headers=subscription.headers,
            routing_pattern=subscription.routing_pattern,
            stuck_after=format_duration(subscription.stuck_after),
            paused=subscription.paused,
        )


class RotateBody(Body):
    """How long the old secret still signs as well."""

    overlap: Duration = "24h"


class ResendBody(Body):
    """Which subscriptions get one message again; null for all."""

    subscriptions: Annotated[list[str], Field(min_length=1)] | None = None
    reason: str = Field(default="", max_length=1000)


class EditBody(Body):
    """What a message edited from another has instead; what is not given is as in that one.

    ``body`` is JSON and is delivered as the exact bytes of that value; ``body_base64`` is any bytes.
    """

    body: Any = None
    body_base64: str | None = None
    content_type: str | None = None
    headers: Annotated[dict[str, str], Field(max_length=64)] | None = None
    key: str | None = None
    biz_id: str | None = None
    subscriptions: Annotated[list[str], Field(min_length=1)] | None = None
    reason: str = Field(min_length=1, max_length=1000)

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        """Refuse two bodies."""
        if "body" in self.model_fields_set and self.body_base64 is not None:
            raise ValueError("give body or body_base64, not both")
        return self


class SelectionBody(Body):
    """Which messages a search, an export or a bulk resend takes: those that meet every condition given.

    ``status_class`` and ``error`` are about one delivery: that of ``subscription``, if one is named, or any. Together
    with them, or with ``signature``, ``status`` is that delivery's own; else it is the message's.
    """

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    destination: str | None = None
    subscription: str | None = None
    status: Status | None = None
    biz_id: str | None = None
    source: str | None = None
    since: Time | None = Field(default=None, alias="from", description="the time in the message's id, inclusive")
    before: Time | None = Field(default=None, alias="to", description="the time in the message's id, exclusive")
    q: str | None = Field(default=None, description="inside the id, the biz id or the source")
    signature: Annotated[str, Field(max_length=MOST_CHARACTERS)] | None = None
    ref: Some | None = Field(
        default=None, description="an id of any kind, whole: of the message or its trace, a biz id or a key"
    )
    status_class: StatusClass | None = Field(
        default=None, description="what the last attempt of a delivery got; none: no answer"
    )
    error: Some | None = Field(
        default=None,
        description="inside the reason, or the last attempt's error, of a delivery that is not delivered; in any case",
    )
    header: Annotated[Some, AfterValidator(_header)] | None = Field(
        default=None, description="NAME or NAME: VALUE of the message's own headers; the name in any case"
    )
    body_path: Annotated[Some, AfterValidator(_path)] | None = Field(
        default=None,
        description="a path that the JSON body has, such as order.lines[0].sku; other names stand in double quotes",
    )
    body_value: Annotated[str, Field(max_length=65_536)] | None = Field(
        default=None, description="what stands there: a text itself, or a number, true, false or null as in the body"
    )
    text: Some | None = Field(default=None, description="inside the body, which is read as UTF-8 or JSON")

    @field_validator("body_value")
    @classmethod
    def _has_path(cls, value: str | None, given: ValidationInfo) -> str | None:
        """Refuse a value that is nowhere."""
        if value is not None and given.data.get("body_path") is None:
            raise ValueError("it needs body_path, which says where in the body")
        return value

    def to_domain(self) -> Selection:
        """Return the selection that this describes."""
        return Selection(
            destination=self.destination,
            subscription=self.subscription,
            status=self.status,
            biz_id=self.biz_id,
            source=self.source,
            since=parse_time(self.since) if self.since else None,
            before=parse_time(self.before) if self.before else None,
            text=self.q,
            signature=self.signature,
            ref=self.ref,
            status_class=self.status_class,
            error=self.error,
            header=self.header,
            body_path=self.body_path,
            body_value=self.body_value,
            body_text=self.text,
        )

    @classmethod
    def of(cls, selection: Selection) -> SelectionBody:
        """Return a selection as people read it."""
        return cls.model_validate(
            {
                "destination": selection.destination,
                "subscription": selection.subscription,
                "status": selection.status,
                "biz_id": selection.biz_id,
                "source": selection.source,
                "from": optional_time(selection.since or 0),
                "to": optional_time(selection.before or 0),
                "q": selection.text,
                "signature": selection.signature,
                "ref": selection.ref,
                "status_class": selection.status_class,
                "error": selection.error,
                "header": selection.header,
                "body_path": selection.body_path,
                "body_value": selection.body_value,
                "text": selection.body_text,
            }
        )


class ResendsBody(Body):
    """A bulk resend: ``rate`` in messages a second."""

    filter: SelectionBody
    rate: StrictFloat | None = Field(default=None, gt=0)
    dry_run: StrictBool = False
    reason: str = Field(default="", max_length=1000)


class ResendRateBody(Body):
    """Another rate of a bulk resend, in messages a second; null for no limit."""

    rate: StrictFloat | None = Field(gt=0)


class RerunBody(Body):
    """Which items of a finished bulk resend are resent again: those that ended so."""

    outcomes: Annotated[list[OutcomeName], Field(min_length=1, max_length=6)] = ["failed", "missing"]
    rate: StrictFloat | None = Field(default=None, gt=0)
    reason: str = Field(default="", max_length=1000)


class RatesBody(Body):
    """Store writes a second of each process; null for no limit."""

    receiver: StrictFloat | None = Field(default=None, gt=0)
    dispatcher: StrictFloat | None = Field(default=None, gt=0)


class PreferenceBody(Body):
    """The cluster to publish to; null leaves it to the transport, whose primary comes first."""

    preferred: str | None


class KeyBody(Body):
    """An API key to make."""

    name: str = Field(default="", max_length=200)
    role: Literal["producer", "viewer", "operator", "admin"] = "producer"
    destinations: list[Code] = Field(default_factory=list)


class UserBody(Body):
    """A user to make; one who is ``blocked`` cannot log in, and has no session."""

    name: str = Field(pattern=r"^[A-Za-z0-9._@-]{1,128}$")
    role: Literal["viewer", "operator", "admin"] = "viewer"
    destinations: list[Code] = Field(default_factory=list, max_length=1000)
    blocked: StrictBool = False

    @model_validator(mode="after")
    def _limits_hold(self) -> Self:
        """Refuse limits that would hold nobody."""
        if self.role == "admin" and self.destinations:
            raise ValueError("an admin is not limited to destinations")
        return self

    @classmethod
    def of(cls, user: StoredUser) -> UserBody:
        """Return a user as people read it."""
        return cls.model_validate(
            {"name": user.name, "role": user.role, "destinations": list(user.destinations), "blocked": user.blocked}
        )


class LoginBody(Body):
    """Who logs in."""

    name: str = Field(max_length=128)
    password: str = Field(max_length=LONGEST)


class PasswordBody(Body):
    """One's present password, and the one to have from now on."""

    current_password: str = Field(max_length=LONGEST)
    password: str = Field(max_length=LONGEST)


def optional_time(time: int) -> str | None:
    """Return a time for people, null for one that is not known."""
    return format_time(time) if time else None
