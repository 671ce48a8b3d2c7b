"""One attempt at a delivery: the request, and what came of it."""

from __future__ import annotations

from typing import Final

from bus.domain.delivery.delivery import Attempt, Delivery
from bus.domain.delivery.retry import parse_retry_after
from bus.domain.delivery.verdict import Answer
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import EgressDenied
from bus.ports.poster import Phases, PostFailure, PostResult, Trial
from bus.ports.sampling import SAMPLE_HEADER
from dispatcher.dependencies import Dependencies
from dispatcher.metrics import SubscriptionMetrics
from dispatcher.request import RequestMaker

_RESPONSE_KEPT: Final = 4096
_BROKEN_URL_PAUSE: Final = 1.0


class AttemptMaker:
    """Calls one subscriber's URL."""

    def __init__(self, subscription: Subscription, dependencies: Dependencies, metrics: SubscriptionMetrics) -> None:
        self._dependencies = dependencies
        self._metrics = metrics
        self._requests: RequestMaker | None = None
        self._broken = ""
        self._subscription = subscription

    def update(self, subscription: Subscription) -> None:
        """Use another configuration; if its URL is denied, each attempt fails with the reason."""
        self._subscription = subscription
        try:
            self._requests = RequestMaker(subscription, self._dependencies.poster, self._dependencies.clock.now())
            self._broken = ""
        except (EgressDenied, ValueError) as error:
            self._requests, self._broken = None, str(error)

    async def attempt(self, delivery: Delivery) -> tuple[Attempt, Answer, bool]:
        """Make one attempt; network trouble is an answer as well.

        Returns
        -------
        tuple
            The attempt, the answer, and whether the connection was refused.
        """
        clock, n = self._dependencies.clock, delivery.attempts + 1
        started = clock.now()
        if self._requests is None or not self._requests.holds(started):
            self.update(self._subscription)
        if self._requests is None:
            await clock.sleep(_BROKEN_URL_PAUSE)
            result = _unsent(self._broken)
        else:
            result = await self._post(self._requests, delivery.message, n, started)
        self._metrics.attempted(result.duration)
        answer = Answer(result.status, result.error, parse_retry_after(result.retry_after, clock.now(), result.date))
        attempt = Attempt(
            id=next(self._dependencies.attempt_ids),
            n=n,
            by=delivery.by,
            started_at=started,
            duration=result.duration,
            phases=result.phases,
            status_code=result.status,
            error=result.error,
            response=b"" if answer.succeeded else result.response[:_RESPONSE_KEPT],
            node=self._dependencies.node,
            generation=delivery.generation,
            taken_at=0 if delivery.handed_over else delivery.since,
        )
        return attempt, answer, result.failure is PostFailure.REFUSED

    async def sample(self, message: Message) -> Trial:
        """POST a message that a person wants to try, marked as a sample."""
        now = self._dependencies.clock.now()
        if self._requests is None or not self._requests.holds(now):
            self.update(self._subscription)
        requests, error = self._requests, self._broken
        if requests is not None:
            headers = [*requests.headers(message, 1, now), (SAMPLE_HEADER, "true")]
            try:
                return await self._dependencies.poster.trial(
                    requests.target, headers, message.body, self._subscription.timeout / 1000
                )
            except ValueError as denied:
                error = str(denied)
        return Trial(self._subscription.url, [], _unsent(error), [], 0)

    async def _post(self, requests: RequestMaker, message: Message, n: int, now: int) -> PostResult:
        try:
            headers = requests.headers(message, n, now)
            return await self._dependencies.poster.post(
                requests.target, headers, message.body, self._subscription.timeout / 1000
            )
        except ValueError as error:
            return _unsent(str(error))


def _unsent(error: str) -> PostResult:
    """Return the result of a POST whose URL is not allowed."""
    return PostResult(
        status=None,
        failure=PostFailure.DENIED,
        error=error,
        indeterminate=False,
        duration=0.0,
        phases=Phases(None, None, None, None, None, None),
        retry_after=None,
        response=b"",
    )
