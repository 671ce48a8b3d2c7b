"""The verdict on a subscriber's response."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from bus.domain.delivery.delivery import Attempt, Delivery, Outcome, Status
from bus.domain.delivery.reasons import BEHIND, NOT_AGAIN
from bus.domain.delivery.retry import is_permanent
from bus.domain.message import encode_message
from bus.domain.subscription import OnFailure, Subscription

GONE: Final = 410


class Answer(NamedTuple):
    """The part of a POST's result that decides: a status, or an error in words; ``retry_after`` in milliseconds.

    A 2xx with an error is that of a batch: the subscriber answered, but did not take this message.
    """

    status: int | None
    error: str
    retry_after: int | None

    @property
    def succeeded(self) -> bool:
        """Any 2xx is success; a 3xx is a failure, since the bus never follows redirects."""
        return self.status is not None and 200 <= self.status < 300 and not self.error  # noqa: PLR2004 - HTTP's own

    @property
    def reason(self) -> str:
        """The failure in words."""
        return self.error or f"HTTP {self.status}"


def refuses_message(answer: Answer, subscription: Subscription) -> bool:
    """Whether an answer is final for one message (``dead_on``, or 4xx but 408, 425 and 429): the endpoint works."""
    return answer.status in subscription.dead_on or is_permanent(answer.status)


def judge(
    delivery: Delivery, subscription: Subscription, attempt: Attempt, answer: Answer, *, now: int, noise: float
) -> Outcome:
    """Return the outcome of one attempt.

    Parameters
    ----------
    now
        Milliseconds since the epoch.
    noise
        Uniform in [0, 1), for the jitter of the retry.
    """
    message = delivery.message
    if answer.succeeded:
        return Outcome(
            message_id=message.id,
            destination=message.destination,
            subscription=subscription.name,
            retention_days=message.retention_days,
            url=subscription.url,
            status=Status.DELIVERED,
            generation=delivery.generation,
            at=now,
            attempt=attempt,
            attempts=attempt.n,
            ready_at=message.ready_at if not delivery.generation else 0,
        )
    return _failed(delivery, subscription, attempt, answer, now=now, noise=noise)


def _failed(
    delivery: Delivery, subscription: Subscription, attempt: Attempt, answer: Answer, *, now: int, noise: float
) -> Outcome:
    tries = delivery.tries + 1
    since = delivery.since or now
    is_final = answer.status in subscription.dead_on
    holds_up = delivery.place and subscription.on_failure is OnFailure.BLOCK
    due = None
    if not is_final:
        due = subscription.retry.next_due(
            tries=tries, since=since, now=now, noise=noise, retry_after=answer.retry_after
        )
    ending = NOT_AGAIN if is_final else f"; retries exhausted after {tries}"
    message = delivery.message
    return Outcome(
        message_id=message.id,
        destination=message.destination,
        subscription=subscription.name,
        retention_days=message.retention_days,
        url=subscription.url,
        status=_ended(delivery, subscription) if due is None else Status.RETRYING,
        generation=delivery.generation,
        at=now,
        reason=answer.reason if due is not None else f"{answer.reason}{ending}",
        attempt=attempt,
        due_at=due or 0,
        attempts=attempt.n,
        tries=tries,
        since=since,
        message=b"" if due is None and not holds_up else encode_message(message),
        order_key=delivery.order_key,
        place=delivery.place,
    )


def _ended(delivery: Delivery, subscription: Subscription) -> Status:
    """Return the status of a delivery that is given up."""
    return Status.PARKED if delivery.place and subscription.on_failure is OnFailure.PARK else Status.DEAD


def without_post(delivery: Delivery, subscription: Subscription, status: Status, reason: str, now: int) -> Outcome:
    """Return the outcome of a delivery that is decided without a POST (skipped, canceled)."""
    message = delivery.message
    return Outcome(
        message_id=message.id,
        destination=message.destination,
        subscription=subscription.name,
        retention_days=message.retention_days,
        url=subscription.url,
        status=status,
        generation=delivery.generation,
        at=now,
        reason=reason,
        attempts=delivery.attempts,
    )


def behind(delivery: Delivery, subscription: Subscription, now: int) -> Outcome:
    """Return the reason shown for a delivery that waits for an earlier one of its key, in the store from now on."""
    return msgspec.structs.replace(
        without_post(delivery, subscription, Status.PENDING, BEHIND, now),
        due_at=now,
        since=delivery.since,
        message=encode_message(delivery.message),
        order_key=delivery.order_key,
        place=delivery.place,
    )
