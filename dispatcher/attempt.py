"""One attempt at a delivery: the request, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from bus.domain.delivery.delivery import Attempt, Delivery
from bus.domain.delivery.retry import parse_retry_after
from bus.domain.delivery.verdict import Answer
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import EgressDenied
from bus.ports.poster import Ongoing, Phases, PostFailure, PostResult, Trial
from bus.ports.sampling import SAMPLE_HEADER
from dispatcher.dependencies import Dependencies
from dispatcher.metrics import SubscriptionMetrics
from dispatcher.request import RequestMaker

_RESPONSE_KEPT: Final = 4096
_BROKEN_URL_PAUSE: Final = 1.0


class Made(NamedTuple):
    """An attempt, the answer to it, and whether the connection was refused."""

    attempt: Attempt
    answer: Answer
    refused: bool


class Exchange:
    """An attempt under way on a kept connection, without a task: it tells when it is made.

    Attributes
    ----------
    ongoing
        What the poster does for it.
    """

    __slots__ = ("_delivery", "_go_on", "_made", "_maker", "_started", "ongoing")

    def __init__(
        self,
        maker: AttemptMaker,
        delivery: Delivery,
        started: int,
        made: Callable[[Made], None],
        go_on: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._maker = maker
        self._delivery = delivery
        self._started = started
        self._made = made
        self._go_on = go_on
        self.ongoing: Ongoing | None = None

    def set_result(self, result: PostResult, /) -> None:
        """Tell what came of it."""
        self._made(self._maker.made(self._delivery, self._started, result))

    def go_on(self, post: Coroutine[Any, Any, PostResult], /) -> None:
        """Have the rest awaited, and then told."""
        self._go_on(self._await(post))

    async def _await(self, post: Coroutine[Any, Any, PostResult]) -> None:
        self.set_result(await post)

    def cancel(self) -> None:
        """End it without telling."""
        if self.ongoing is not None:
            self.ongoing.cancel()


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

    async def attempt(self, delivery: Delivery) -> Made:
        """Make one attempt; network trouble is an answer as well."""
        clock, n = self._dependencies.clock, delivery.attempts + 1
        started = clock.now()
        requests = self._current(started)
        if requests is None:
            await clock.sleep(_BROKEN_URL_PAUSE)
            result = _unsent(self._broken)
        else:
            result = await self._post(requests, delivery.message, n, started)
        return self.made(delivery, started, result)

    def begin(
        self,
        delivery: Delivery,
        made: Callable[[Made], None],
        go_on: Callable[[Coroutine[Any, Any, None]], object],
    ) -> Exchange | None:
        """Begin an attempt on a kept connection; None where there is none, or the request cannot be made.

        ``made`` is called when it is made; ``go_on`` with what has to be awaited before, in a task.
        """
        started, message = self._dependencies.clock.now(), delivery.message
        requests = self._current(started)
        if requests is None:
            return None
        exchange = Exchange(self, delivery, started, made, go_on)
        try:
            headers = requests.headers(message, delivery.attempts + 1, started)
            exchange.ongoing = self._dependencies.poster.begin(
                requests.target, headers, message.body, self._subscription.timeout / 1000, exchange
            )
        except ValueError:
            return None
        return exchange if exchange.ongoing is not None else None

    def _current(self, now: int) -> RequestMaker | None:
        """Return what makes the requests now; None for a URL that is denied."""
        if self._requests is None or not self._requests.holds(now):
            self.update(self._subscription)
        return self._requests

    def made(self, delivery: Delivery, started: int, result: PostResult) -> Made:
        """Return the attempt that began at ``started`` (ms) and of which this came."""
        clock, n = self._dependencies.clock, delivery.attempts + 1
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
        return Made(attempt, answer, result.failure is PostFailure.REFUSED)

    async def sample(self, message: Message) -> Trial:
        """POST a message that a person wants to try, marked as a sample."""
        now = self._dependencies.clock.now()
        requests, error = self._current(now), self._broken
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
