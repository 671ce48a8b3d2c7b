"""A subscription: one URL that gets a destination's messages, and how."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from bus.domain.delivery.retry import RetryPolicy
from bus.domain.times import format_time
from bus.localized_text import N_, localized

DEFAULT_STUCK_AFTER = 300_000
LONGEST_TIMEOUT: Final = 600_000
"""Milliseconds."""
MOST_IN_BATCH: Final = 100
PAUSED_BY_410: Final = N_("the subscriber answered 410 Gone")
PAUSED_BY_PERSON: Final = N_("paused by a person")


class BatchFormat(enum.StrEnum):
    """Format of the messages of a POST: an object a line, or one array of them."""

    NDJSON = "ndjson"
    JSON = "json"


class OnFailure(enum.StrEnum):
    """Treatment of the later messages of a key once one of them is given up."""

    BLOCK = "block"
    """They wait until a person resends or skips it."""
    PARK = "park"
    """It is set aside, and they continue."""
    SKIP = "skip"
    """It is dead, and they continue."""


MOST_SECRETS: Final = 5
"""Secrets that sign at once during rotations: each is a signature in the header of every POST."""


class Secret(msgspec.Struct, frozen=True):
    """A signing secret; ``expires_at`` (ms) is set on the old one during a rotation, 0 means never."""

    value: str
    expires_at: int = 0


class AlarmLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """Limits from which on a subscription is an alarm; None for those of the whole bus.

    Attributes
    ----------
    backlog
        Messages that wait.
    age
        Wait of the oldest of them, in milliseconds.
    p99
        How long 99 of 100 first deliveries take at most, in milliseconds.
    error_rate
        The share of attempts that fail.
    """

    backlog: int | None = None
    age: int | None = None
    p99: int | None = None
    error_rate: float | None = None


class Subscription(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of one subscription.

    Attributes
    ----------
    max_concurrency
        Requests in flight to the URL at once.
    rate
        Deliveries started a second, None for no limit.
    timeout
        Deadline of one POST in milliseconds.
    filter
        A JMESPath expression over ``{body, headers, biz_id, key, source}``; None takes every message.
    headers
        Constant headers of each POST.
    batch
        Messages in a POST, at most. Above 1 every POST is a batch, in ``batch_format``, also one of a single message.
    on_failure
        Treatment of a key once one of its messages is given up; only where the destination keeps an order.
    stuck_after
        Milliseconds without an outcome after which a delivery that no transport holds is compensated.
    paused_reason
        Origin of the pause: a person, or the subscriber by answering 410.
    dead_on
        Statuses after which a delivery is dead at once, without a retry.
    routing_pattern
        Which routing keys it takes, as a topic exchange of AMQP does: ``*`` is one word, ``#`` any.
    start_at
        Start of a new one on a transport that keeps delivered messages (Kafka), in milliseconds since the epoch;
        0 is the next message.
    owner
        Recipient of its alarms, one of the channels' ``owners``; empty for the destination's.
    alarms
        From where on it is an alarm.
    doubted_until
        A person may have discarded messages received until then (ms): dispatchers ask the store before a POST.
    """

    destination: str
    name: str
    url: str
    max_concurrency: int = 16
    rate: float | None = None
    timeout: int = 10_000
    retry: RetryPolicy = RetryPolicy()
    secrets: tuple[Secret, ...] = ()
    filter: str | None = None
    headers: dict[str, str] = {}
    batch: int = 1
    batch_format: BatchFormat = BatchFormat.NDJSON
    on_failure: OnFailure = OnFailure.BLOCK
    stuck_after: int = DEFAULT_STUCK_AFTER
    paused: bool = False
    paused_reason: str = ""
    dead_on: tuple[int, ...] = ()
    routing_pattern: str = "#"
    start_at: int = 0
    owner: str = ""
    alarms: AlarmLimits = AlarmLimits()
    doubted_until: int = 0
    created_at: int = 0
    version: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """Key of a subscription: its destination and its own name."""
        return (self.destination, self.name)

    def rotated(self, fresh: str, now: int, until: int) -> tuple[Secret, ...]:
        """Return the secrets after a rotation: the present one signs ``until`` then, former ones to their own end (ms).

        An overlap that is over already ends them all.

        Raises
        ------
        ValueError
            ``MOST_SECRETS`` sign already.
        """
        if until <= now:
            return (Secret(fresh),)
        present, former = self.secrets[:1], [secret for secret in self.secrets[1:] if secret.expires_at > now]
        if len(present) + len(former) >= MOST_SECRETS:
            first = format_time(min(secret.expires_at for secret in former))
            raise ValueError(
                localized(
                    "{most} secrets sign already; the first of them ends at {time}", most=MOST_SECRETS, time=first
                )
            )
        return (Secret(fresh), *(Secret(secret.value, until) for secret in present), *former)

    def signing_secrets(self, now: int) -> list[str]:
        """Return the secrets to sign with at a time, the newest first."""
        return [secret.value for secret in self.secrets if not secret.expires_at or secret.expires_at > now]
