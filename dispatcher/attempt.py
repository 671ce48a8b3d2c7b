"""Attempts at a subscription's deliveries: the requests, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from bus.domain.delivery.batch import read_batch_answer
from bus.domain.delivery.delivery import Attempt
from bus.domain.delivery.request import EPOCH
from bus.domain.delivery.retry import parse_retry_after
from bus.domain.delivery.verdict import Answer
from bus.domain.message import Message
from bus.domain.subscription import Subscription
from bus.errors import EgressDenied
from bus.ports.poster import Phases, PostFailure, PostResult, Trial
from bus.ports.sampling import SAMPLE_HEADER
from dispatcher.dependencies import Dependencies
from dispatcher.exchange import Exchange, Load, PostResults
from dispatcher.metrics import SubscriptionMetrics
from dispatcher.pending_deliveries import PendingDelivery
from dispatcher.request import RequestMaker

_RESPONSE_KEPT: Final = 4096
_BROKEN_URL_PAUSE: Final = 1.0


class AttemptMaker:
    """Calls one subscriber's URL.

    Attributes
    ----------
    told
        Called with an exchange that was begun without a task, and its results.
    go_on
        Called with a coroutine that has to be awaited first, in a task.
    """

    def __init__(
        self,
        subscription: Subscription,
        dependencies: Dependencies,
        metrics: SubscriptionMetrics,
        told: Callable[[Exchange, PostResults], None],
        go_on: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._dependencies = dependencies
        self._spans = dependencies.spans
        self._metrics = metrics
        self._requests: RequestMaker | None = None
        self._broken = ""
        self._subscription = subscription
        self._timeout = subscription.timeout / 1000
        self.told = told
        self.go_on = go_on

    def update(self, subscription: Subscription) -> None:
        """Use another configuration; if its URL is denied, each attempt fails with the reason."""
        self._subscription = subscription
        self._timeout = subscription.timeout / 1000
        try:
            self._requests = RequestMaker(subscription, self._dependencies.poster, self._dependencies.clock.now())
            self._broken = ""
        except (EgressDenied, ValueError) as error:
            self._requests, self._broken = None, str(error)

    def prepare(self, load: Load, *, is_probe: bool) -> Exchange:
        """Make an attempt ready: to be begun, or attempted."""
        started = self._dependencies.clock.now()
        exchange, requests = Exchange(self, load, started, is_probe=is_probe), self._current(started)
        if requests is None:
            return exchange
        if self._subscription.batch == 1:
            delivery = load[0].delivery
            if self._spans.is_on:
                exchange.span = self._spans.begin(delivery.message)
            headers = requests.headers(
                delivery.message,
                delivery.attempts + 1,
                started,
                is_late=delivery.message.is_late,
                context=exchange.span.context if exchange.span is not None else None,
            )
            exchange.post = requests.target, headers + self._epoch(), delivery.message.body, self._timeout
            return exchange
        attempts = [(entry.delivery.message, entry.delivery.attempts + 1) for entry in load]
        if self._spans.is_on:
            exchange.span = self._spans.begin_batch([entry.delivery.message for entry in load])
        batch = requests.batch(attempts, self._dependencies.attempt_ids, started, exchange.span)
        exchange.post = requests.target, batch.headers + self._epoch(), batch.body, self._timeout
        exchange.mark = batch.mark
        return exchange

    def _epoch(self) -> list[tuple[str, str]]:
        """Return the header by which a subscriber can refuse requests of a process that another one has replaced."""
        epoch = self._dependencies.epoch(self._subscription.destination)
        return [(EPOCH, str(epoch))] if epoch else []

    async def attempt(self, exchange: Exchange) -> PostResults:
        """Make an attempt that could not be begun; network trouble is an answer as well."""
        if exchange.post is None:
            await self._dependencies.clock.sleep(_BROKEN_URL_PAUSE)
            return self.made(exchange, _unsent(self._broken))
        try:
            return self.made(exchange, await self._dependencies.poster.post(*exchange.post))
        except ValueError as error:
            return self.made(exchange, _unsent(str(error)))

    def _current(self, now: int) -> RequestMaker | None:
        """Return the present maker of requests; None for a URL that is denied."""
        if self._requests is None or not self._requests.holds(now):
            self.update(self._subscription)
        return self._requests

    def made(self, exchange: Exchange, result: PostResult) -> PostResults:
        """Return the attempts of an exchange of which this came."""
        self._metrics.attempted(result.duration)
        retry_after = parse_retry_after(result.retry_after, self._dependencies.clock.now(), result.date)
        answer = Answer(result.status, result.error, retry_after)
        said = None
        if exchange.mark is not None and answer.succeeded:
            said = read_batch_answer(result.response, is_whole=result.is_whole)
        attempts = []
        for entry in exchange.load:
            delivery, own = entry.delivery, answer
            if said is not None and (error := said.error_of(delivery.message.id)):
                own = answer._replace(error=error)
            attempts.append((self._attempt(exchange, entry, result, own), own))
        return PostResults(attempts, answer, result.failure)

    def _attempt(self, exchange: Exchange, entry: PendingDelivery, result: PostResult, answer: Answer) -> Attempt:
        delivery = entry.delivery
        return Attempt(
            id=next(self._dependencies.attempt_ids),
            n=delivery.attempts + 1,
            by=delivery.by,
            started_at=exchange.started,
            duration=result.duration,
            phases=result.phases,
            status_code=result.status,
            error=answer.error,
            response=b"" if answer.succeeded else result.response[:_RESPONSE_KEPT],
            node=self._dependencies.node,
            generation=delivery.generation,
            taken_at=0 if delivery.handed_over else delivery.since,
            batch=exchange.mark,
            is_late=delivery.message.is_late,
            receipt=entry.incoming.receipt if entry.incoming is not None else None,
        )

    async def sample(self, message: Message) -> Trial:
        """POST a message that a person wants to try, marked as a sample; as a batch of one where batches are sent."""
        now = self._dependencies.clock.now()
        requests, error = self._current(now), self._broken
        if requests is not None:
            try:
                return await self._try(requests, message, now)
            except ValueError as denied:
                error = str(denied)
        return Trial(self._subscription.url, [], _unsent(error), [], 0, message.body)

    async def _try(self, requests: RequestMaker, message: Message, now: int) -> Trial:
        is_batch = self._subscription.batch > 1
        if is_batch:
            _, headers, body = requests.batch([(message, 1)], self._dependencies.attempt_ids, now)
        else:
            headers, body = requests.headers(message, 1, now), message.body
        marked = [*headers, (SAMPLE_HEADER, "true")]
        trial = await self._dependencies.poster.trial(requests.target, marked, body, self._timeout)
        if not is_batch or not Answer(trial.result.status, trial.result.error, None).succeeded:
            return trial
        said = read_batch_answer(trial.result.response, is_whole=trial.result.is_whole)
        return trial._replace(result=trial.result._replace(error=said.error_of(message.id)))


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
