"""The state of a subscription: the worst word that fits, and the reason."""

from __future__ import annotations

from typing import Any

import pytest

from bus.domain.destination import Destination
from bus.domain.health.conditions import Condition, State, conditions
from bus.domain.health.facts import Backlog, DeliveryRates, Facts, OpenBreaker
from bus.domain.health.vitals import BreakerFigures
from bus.domain.subscription import PAUSED_BY_410, Subscription

LANE = ("orders", "shop")


def breaker(answered: int | None, since: int = 5, probe_at: int = 9) -> OpenBreaker:
    return OpenBreaker("n1", *LANE, BreakerFigures("open", since, probe_at, answered))


def found(*, paused: bool = False, destination: bool = False, reason: str = "", **facts: Any) -> Condition:
    shop = Subscription(
        destination="orders", name="shop", url="http://x/", rate=2.0, paused=paused, paused_reason=reason
    )
    orders = Destination(code="orders", paused=destination)
    (one,) = conditions(Facts(roles=(), destinations={"orders": orders}, subscriptions=[shop], **facts), {LANE: 3})
    return one


def served(attempts: int, failed: int) -> dict[tuple[str, str], DeliveryRates]:
    return {LANE: DeliveryRates(attempts, failed, None)}


@pytest.mark.parametrize(
    ("facts", "state", "why"),
    [
        ({}, State.QUIET, ""),
        ({"delivering": served(100, 9)}, State.HEALTHY, ""),
        ({"delivering": served(100, 10)}, State.FAILING, "10% of 100 attempts of the last minutes failed"),
        ({"delivering": served(1, 1)}, State.FAILING, "100% of 1 attempts of the last minutes failed"),
        ({"saturated": {LANE}}, State.SATURATED, "all 16 permits are in use, and deliveries wait"),
        ({"held_by_rate": {LANE}}, State.HELD_BY_RATE, "deliveries wait for its rate, 2 a second"),
        ({"breakers": [breaker(None)]}, State.BREAKER_OPEN, "it does not answer, and is only probed"),
        ({"breakers": [breaker(503)]}, State.BREAKER_OPEN, "it fails with 503, and is only probed"),
        ({"paused": True, "breakers": [breaker(503)]}, State.PAUSED, ""),
        ({"paused": True, "reason": PAUSED_BY_410}, State.PAUSED, "the subscriber answered 410 Gone"),
        ({"destination": True, "saturated": {LANE}}, State.PAUSED, "its destination is paused"),
    ],
)
def test_the_word_and_the_reason(facts: dict[str, Any], state: State, why: str) -> None:
    one = found(**facts)
    assert (one.state, str(one.why)) == (state, why)


def test_what_waits_and_what_became_of_the_last_is_told() -> None:
    one = found(waiting={LANE: Backlog(7, 1_000)}, dead={LANE: 2}, delivering=served(10, 4))
    assert (one.waiting, one.retrying, one.dead, one.attempts, one.failed) == (Backlog(7, 1_000), 3, 2, 10, 4)


def test_while_the_store_is_away_nobody_knows() -> None:
    shop = Subscription(destination="orders", name="shop", url="http://x/")
    (one,) = conditions(Facts(roles=(), subscriptions=[shop], dead=None, delivering=None), None)
    assert (one.state, one.retrying, one.dead) == (State.QUIET, None, None)


def test_of_several_breakers_the_first_probe_and_the_longest_time_count() -> None:
    one = found(breakers=[breaker(500, since=5, probe_at=20), breaker(None, since=7, probe_at=10)])
    assert (one.since, one.probe_at, str(one.why)) == (5, 10, "it fails with 500, and is only probed")
