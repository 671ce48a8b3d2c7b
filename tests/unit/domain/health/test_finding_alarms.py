"""Alarms from findings of the pipeline, with duration and grouping."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bus.domain.destination import Destination, TransportName
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.alarms import alarms, is_known
from bus.domain.health.facts import DeliveryRates, Facts, OpenBreaker, Part
from bus.domain.health.findings import MOST_TOLD, NORMS_LAST, Deviation, Deviations, Findings, Metric, Proof, Shortfall
from bus.domain.health.vitals import BreakerFigures
from bus.domain.subscription import AlarmLimits, Subscription
from bus.domain.times import HOUR

ROLES = ("receiver", "dispatcher", "compensator")
NOW = 500 * HOUR
ORDERS = Destination(code="orders", owner="order-team")
SHOP = Subscription(destination="orders", name="shop", url="http://shop:80/in", owner="shop-team")


def deviation(metric: Metric = Metric.VOLUME, subscription: str = "shop", **changes: Any) -> Deviation:
    fields: dict[str, Any] = {
        Metric.VOLUME: {"value": 120.0, "norm": 3000.2, "low": 2700.7, "high": 3300.0},
        Metric.LATENCY: {"value": 4200.0, "norm": 150.0, "high": 900.0},
        Metric.FAILURE: {"value": 0.5, "norm": 0.0, "high": 0.021},
    }[metric]
    named = {"destination": "orders", "subscription": subscription, "metric": metric, "since": NOW - 2 * HOUR}
    return Deviation(**{**named, **fields, **changes})


def shortfall(subscription: str = "shop", missing: int = 0, contradicted: int = 0, **changes: Any) -> Shortfall:
    fields = {"destination": "orders", "since": NOW - HOUR, "until": NOW - HOUR, **changes}
    return Shortfall(subscription=subscription, missing=missing, contradicted=contradicted, **fields)


def found(*told: Deviation | Shortfall, told_at: int = NOW, **facts: Any) -> list[Alarm]:
    """Return the alarms of a bus that was told this."""
    norms = tuple(one for one in told if isinstance(one, Deviation))
    short = tuple(one for one in told if isinstance(one, Shortfall))
    proof = proven(*short)
    findings = Findings(Deviations(told_at=told_at, count=len(norms), items=norms), proof)
    known = {"roles": ROLES, "now": NOW, "destinations": {"orders": ORDERS}, "subscriptions": [SHOP]}
    return alarms(Facts(**{**known, "findings": findings, **facts}))


def proven(*items: Shortfall, **changes: Any) -> Proof:
    missing, contradicted = sum(one.missing for one in items), sum(one.contradicted for one in items)
    return Proof(**{"told_at": NOW, "missing": missing, "contradicted": contradicted, "items": items, **changes})


@pytest.mark.parametrize(
    ("told", "what", "step"),
    [
        (
            deviation(subscription=""),
            "120 messages came to orders in an hour in which 3000 are usual, and 2701 the least",
            "see whether its producers run",
        ),
        (
            deviation(subscription="", value=9000.0),
            "9000 messages came to orders in an hour in which 3000 are usual, and 3300 the most",
            "see which of its producers",
        ),
        (
            deviation(),
            "120 messages were delivered to shop of orders in an hour: 3000 are usual, 2701 the least",
            "see how fast it answers",
        ),
        (
            deviation(value=9000.0),
            "9000 messages were delivered to shop of orders in an hour: 3000 are usual, 3300 the most",
            "see which of its producers",
        ),
        (
            deviation(Metric.LATENCY),
            "deliveries to shop of orders are late: hourly p95 is 4s; 150ms is usual, 900ms the most",
            "see how fast it answers",
        ),
        (
            deviation(Metric.FAILURE),
            "50.0% of an hour's attempts at shop of orders failed; 0.0% is usual, 2.1% the most",
            "look at its failures",
        ),
    ],
)
def test_what_is_outside_of_its_norms_is_a_warning_with_the_next_step(told: Deviation, what: str, step: str) -> None:
    (one,) = found(told)
    assert (one.rule, one.severity, one.since) == ("norm", Severity.WARNING, told.since)
    assert str(one.what) == what
    assert str(one.next_step).startswith(step)
    assert str(one.next_step).endswith("; bus pipeline judge lists all that is out")
    assert (one.destination, one.subscription) == ("orders", told.subscription or None)
    assert one.link == ("destinations/orders/subscriptions/shop" if told.subscription else "destinations/orders")
    assert one.owner == ("shop-team" if told.subscription else "order-team")


def test_what_nobody_told_again_for_three_hours_is_over() -> None:
    assert found(deviation(), told_at=NOW - NORMS_LAST + 1)
    assert found(deviation(), told_at=NOW - NORMS_LAST) == []
    assert is_known(Facts(roles=ROLES, findings=Findings()), "norm:volume@orders/shop")


def test_who_is_gone_or_paused_gets_nothing_and_is_no_alarm() -> None:
    told = (deviation(), deviation(Metric.LATENCY))
    assert found(*told, subscriptions=[]) == []
    assert found(*told, destinations={}) == []
    assert found(*told, subscriptions=[msgspec.structs.replace(SHOP, paused=True, paused_reason="x")]) == []
    held = {"destinations": {"orders": msgspec.structs.replace(ORDERS, paused=True)}}
    assert [one.subscription for one in found(*told, deviation(subscription=""), **held)] == [None]


def test_what_a_destination_does_not_have_is_left_out() -> None:
    assert found(deviation(Metric.LATENCY, subscription="")) == []


def test_all_metrics_of_a_destination_are_one_incident() -> None:
    told = found(deviation(subscription=""), *map(deviation, Metric))
    assert len({one.key for one in told}) == 4
    assert {one.cause for one in told} == {"destination:orders"}


def test_what_follows_from_something_known_is_told_with_it() -> None:
    told = (deviation(subscription=""), *map(deviation, Metric))

    def causes(**facts: Any) -> dict[str, str]:
        return {one.subject: one.cause for one in found(*told, **facts) if one.rule == "norm"}

    names = ("volume@orders", "volume@orders/shop", "latency@orders/shop", "failure@orders/shop")
    own, host, role = "destination:orders", "host:shop:80", "role:receiver"
    down = [OpenBreaker("n1", "orders", "shop", BreakerFigures("open", 1, 2))]
    assert causes(breakers=down) == dict(zip(names, (own, host, host, host), strict=True))
    assert causes(lasting=["host:shop:80"]) == dict(zip(names, (own, host, host, host), strict=True))
    assert causes(roles=ROLES[1:]) == dict(zip(names, (role, role, own, own), strict=True))
    waits = "role:dispatcher"
    assert causes(roles=("receiver", "compensator")) == dict(zip(names, (own, waits, waits, own), strict=True))
    kafka = {"destinations": {"orders": Destination(code="orders", transport=TransportName.KAFKA)}}
    away = {"parts": [Part("kafka", "away", "o1", "n1")], **kafka}
    assert causes(**away) == dict(zip(names, (own, "part:kafka", "part:kafka", own), strict=True))


def test_a_subscription_that_has_a_trouble_of_its_own_is_why_its_norms_are_out() -> None:
    failing = {
        "subscriptions": [msgspec.structs.replace(SHOP, alarms=AlarmLimits(error_rate=0.1))],
        "delivering": {("orders", "shop"): DeliveryRates(100, 50, None)},
    }
    told = found(deviation(Metric.FAILURE), deviation(subscription=""), **failing)
    assert {one.key: one.cause for one in told} == {
        "errors:orders/shop": "subscription:orders/shop",
        "norm:failure@orders/shop": "subscription:orders/shop",
        "norm:volume@orders": "destination:orders",
    }
    assert found(deviation(), lasting=["subscription:orders/shop"])[0].cause == "subscription:orders/shop"
    told = found(deviation(), shortfall(missing=1), dead={("orders", "shop"): 3})
    assert {one.rule: one.cause for one in told} == {
        "norm": "destination:orders",
        "proof": "proof",
        "dead": "dead:orders/shop",
    }


def test_what_a_proof_misses_is_critical_and_what_it_contradicts_a_warning() -> None:
    told = found(shortfall(missing=3, contradicted=2), shortfall("", missing=1, contradicted=4))
    assert {one.key: (one.severity, one.cause) for one in told} == {
        "proof:missing@orders/shop": (Severity.CRITICAL, "proof"),
        "proof:missing@orders": (Severity.CRITICAL, "proof"),
        "proof:contradicted@orders/shop": (Severity.WARNING, "proof"),
        "proof:contradicted@orders": (Severity.WARNING, "proof"),
    }
    texts = {one.subject: (str(one.what), str(one.next_step)) for one in told}
    what, step = texts["missing@orders/shop"]
    assert what == "a proof misses 3 deliveries to shop of orders: nothing tells what became of them"
    assert "bus pipeline reconcile --lake LAKE --store STORE --repair --tell" in step
    what, step = texts["missing@orders"]
    assert what == "1 messages to orders are missing: no receiver accepted them, or the store lost them"
    assert "bus spool drain" in step
    what, _ = texts["contradicted@orders"]
    assert what == "of 4 accepted messages to orders the store has no more than outcomes"
    what, _ = texts["contradicted@orders/shop"]
    assert what == "of 2 deliveries to shop of orders events tell an end that the store does not have"


def test_a_proof_stays_however_old_and_whoever_was_removed() -> None:
    assert len(found(shortfall(missing=1), now=NOW + 1000 * HOUR, subscriptions=[], destinations={})) == 1


def test_what_is_beyond_the_bound_is_counted() -> None:
    norms = Deviations(told_at=NOW, count=MOST_TOLD + 7, items=(deviation(),) * MOST_TOLD)
    findings = Findings(norms, proven(shortfall(missing=2), missing=9, contradicted=4))
    told = {one.subject: str(one.what) for one in found(findings=findings)}
    assert told["more"] == "7 more metrics are outside of their norms"
    assert told["missing@more"] == "a proof misses 7 more deliveries"
    assert told["contradicted@more"].startswith("of 4 more deliveries events tell")


@pytest.mark.parametrize("rule", ["norm", "proof"])
def test_it_stays_as_it_was_while_the_store_does_not_tell(rule: str) -> None:
    facts = Facts(roles=ROLES)
    assert alarms(facts) == []
    assert not is_known(facts, f"{rule}:x")
    assert is_known(facts._replace(findings=Findings()), f"{rule}:x")


def test_a_later_proof_of_all_ends_what_was_found_before() -> None:
    assert proven().after(proven(shortfall(missing=3))).items == ()
    left = shortfall(missing=1)
    assert proven(left).after(proven(shortfall(missing=3))) == proven(left)


@pytest.mark.parametrize(
    ("since", "before", "is_left"),
    [
        (NOW - HOUR, None, False),
        (NOW - HOUR + 1, None, True),
        (None, NOW, False),
        (None, NOW - HOUR, True),
        (NOW, NOW + HOUR, True),
    ],
)
def test_a_later_proof_of_a_range_ends_only_what_is_in_it(since: int | None, before: int | None, is_left: bool) -> None:
    earlier = proven(shortfall(missing=3, contradicted=1))
    later = proven(since=since, before=before).after(earlier)
    assert (later.items, later.missing, later.contradicted) == ((earlier.items, 3, 1) if is_left else ((), 0, 0))


def test_a_proof_without_the_store_does_not_end_what_one_with_it_found() -> None:
    earlier = proven(shortfall(contradicted=3), with_store=True)
    weaker = proven().after(earlier)
    assert (weaker.contradicted, weaker.with_store) == (3, True)
    assert proven().after(weaker).contradicted == 3
    assert proven(with_store=True).after(weaker).contradicted == 0
    assert proven(with_store=True).after(proven(shortfall(missing=1))).missing == 0


def test_what_two_proofs_found_of_a_subscription_is_at_least_the_greater() -> None:
    earlier = proven(shortfall(missing=3, since=0, until=HOUR), shortfall("mail", contradicted=1, since=0, until=0))
    later = proven(shortfall(missing=2), since=NOW - HOUR, missing=5).after(earlier)
    assert later.items == (
        shortfall(missing=3, since=0, until=NOW - HOUR),
        shortfall("mail", contradicted=1, since=0, until=0),
    )
    assert (later.missing, later.contradicted) == (6, 1)
    assert later.left_out == (3, 0)


def test_proofs_of_many_ranges_stay_bounded() -> None:
    many = [shortfall(f"s{number}", missing=number + 1, since=0, until=0) for number in range(MOST_TOLD)]
    later = proven(shortfall(missing=MOST_TOLD + 9), since=HOUR).after(proven(*many))
    assert len(later.items) == MOST_TOLD
    assert later.items[0].subscription == "shop"
    assert later.left_out == (1, 0)
