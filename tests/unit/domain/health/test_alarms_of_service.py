"""Alarms about the service of a subscription and the volume of messages: thresholds both ways."""

from __future__ import annotations

import msgspec
import pytest

from bus.domain.destination import Destination
from bus.domain.durations import about
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.alarms import alarms, is_known
from bus.domain.health.facts import Backlog, DeliveryRates, Facts, OpenBreaker, Part, Queue
from bus.domain.health.progress import Progress, Verdict
from bus.domain.health.rulebook import Change, Rulebook
from bus.domain.health.vitals import BreakerFigures, SpoolFigures
from bus.domain.subscription import AlarmLimits, Subscription
from bus.domain.times import MINUTE

ROLES = ("receiver", "dispatcher", "compensator")
NOW = 10_000_000
KEY = ("orders", "shop")


def subscription(**changes: object) -> Subscription:
    return msgspec.structs.replace(Subscription(destination="orders", name="shop", url="http://shop/"), **changes)


def found(*active: str, book: Rulebook | None = None, **facts: object) -> list[Alarm]:
    known = {
        "roles": ROLES,
        "now": NOW,
        "destinations": {"orders": Destination(code="orders")},
        "subscriptions": [subscription()],
    }
    return alarms(Facts(**{**known, **facts}), book or Rulebook(), active)  # type: ignore[arg-type]


def rules(*active: str, book: Rulebook | None = None, **facts: object) -> list[str]:
    return [one.rule for one in found(*active, book=book, **facts)]


@pytest.mark.parametrize(("records", "expected"), [(9_999, []), (10_000, ["backlog"]), (None, []), (0, [])])
def test_a_backlog_is_an_alarm_from_the_limit_of_the_bus_on(records: int | None, expected: list[str]) -> None:
    assert rules(waiting={KEY: Backlog(records, None)}) == expected


def test_a_subscription_has_limits_of_its_own() -> None:
    own = subscription(alarms=AlarmLimits(backlog=5, age=1000, p99=50, error_rate=0.1))
    facts = {
        "subscriptions": [own],
        "waiting": {KEY: Backlog(5, NOW - 1000)},
        "delivering": {KEY: DeliveryRates(10, 1, 50.0)},
    }
    assert sorted(rules(**facts)) == ["age", "backlog", "errors", "latency"]
    assert rules(**{**facts, "subscriptions": [subscription()]}) == []


def test_once_over_its_limit_it_is_an_alarm_until_well_below() -> None:
    def at(records: int, *active: str) -> list[str]:
        return rules(*active, waiting={KEY: Backlog(records, None)})

    assert at(8_000) == []
    assert at(8_000, "backlog:orders/shop") == ["backlog"]
    assert at(7_999, "backlog:orders/shop") == []
    assert at(8_000, "backlog:orders/other") == []


def test_an_age_that_is_not_known_is_none() -> None:
    assert rules(waiting={KEY: Backlog(1, 0)}) == []
    (alarm,) = found(waiting={KEY: Backlog(1, NOW - 20 * MINUTE)})
    assert str(alarm.what) == "the oldest message that waits for shop of orders does so for 20m"
    assert alarm.since == NOW - 20 * MINUTE


def test_what_a_person_paused_waits_without_an_alarm() -> None:
    waiting = {KEY: Backlog(10**6, 1)}
    assert rules(subscriptions=[subscription(paused=True)], waiting=waiting) == []
    assert rules(destinations={"orders": Destination(code="orders", paused=True)}, waiting=waiting) == []


def test_of_few_attempts_a_share_says_nothing() -> None:
    assert rules(delivering={KEY: DeliveryRates(9, 9, None)}) == []
    (alarm,) = found(delivering={KEY: DeliveryRates(10, 5, None)})
    assert (alarm.rule, str(alarm.what)) == ("errors", "50% of the attempts at shop of orders fail: 5 of the last 10")
    assert "edit and resend what it refuses" in str(alarm.next_step)


def test_latency_has_no_limit_unless_one_is_set() -> None:
    late = {KEY: DeliveryRates(10, 0, 60_000.0)}
    assert rules(delivering=late) == []
    (alarm,) = found(book=Rulebook({"latency": Change(limit=60_000)}), delivering=late)
    assert str(alarm.what) == "deliveries to shop of orders are late: p99 is 60s"


def test_permits_that_are_all_in_use() -> None:
    (alarm,) = found(saturated=[KEY])
    assert (alarm.rule, alarm.destination, alarm.subscription) == ("saturated", "orders", "shop")


@pytest.mark.parametrize(
    ("count", "expected"), [(4, ["volume-low"]), (5, []), (9, []), (10, ["volume-high"]), (None, ["volume-low"])]
)
def test_how_many_messages_come(count: int | None, expected: list[str]) -> None:
    orders = Destination(code="orders", pv_min=5, pv_max=9)
    accepted = {"orders": count} if count is not None else {}
    assert rules(destinations={"orders": orders}, accepted=accepted) == expected
    assert rules(destinations={"orders": orders}, accepted=None) == []


def test_a_queue_whose_records_grow_old() -> None:
    def queue(name: str, oldest: int | None) -> Queue:
        return Queue("o1", "n1", name, SpoolFigures(1, 1, 100, 0, oldest))

    assert rules(queues=[queue("receiver", NOW - 14 * MINUTE), queue("direct", None)]) == []
    assert rules(queues=[queue("receiver", NOW - 15 * MINUTE)]) == ["spool-age"]
    assert rules(queues=[queue("quarantine", 1)]) == ["quarantine"]


def test_an_installation_has_other_rules() -> None:
    waiting = {KEY: Backlog(50, None)}
    assert rules(book=Rulebook({"backlog": Change(limit=50)}), waiting=waiting) == ["backlog"]
    assert rules(book=Rulebook({"backlog": Change(limit=50, off=True)}), waiting=waiting) == []
    (worse,) = found(book=Rulebook({"backlog": Change(limit=50, severity=Severity.CRITICAL)}), waiting=waiting)
    assert worse.severity is Severity.CRITICAL
    assert Rulebook({"backlog": Change(hold=7)})["backlog"].hold == 7
    assert Rulebook({"backlog": Change(hold=0)})["backlog"].hold == 0


def test_who_owns_it() -> None:
    shop = subscription(owner="shop-team", alarms=AlarmLimits(backlog=1))
    orders = Destination(code="orders", owner="order-team", pv_min=1)
    facts = {"destinations": {"orders": orders}, "waiting": {KEY: Backlog(1, None)}, "accepted": {}}
    owners = {one.rule: one.owner for one in found(subscriptions=[shop], **facts)}
    assert owners == {"backlog": "shop-team", "volume-low": "order-team"}
    (mine,) = (one for one in found(subscriptions=[subscription(alarms=shop.alarms)], **facts) if one.subscription)
    assert mine.owner == "order-team"


def test_what_the_facts_cannot_tell_stays_as_it_was() -> None:
    blind = Facts(ROLES, dead=None, waiting={KEY: Backlog(None, None)})
    seen = Facts(ROLES, delivering={}, accepted={}, waiting={KEY: Backlog(3, None)})
    for key in ("dead:orders/shop", "latency:orders/shop", "errors:a/b", "volume-low:orders", "backlog:orders/shop"):
        assert not is_known(blind, key)
        assert is_known(seen, key)
    assert is_known(blind, "breaker-open:orders/shop")


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [(0, "0ms"), (1_999, "1999ms"), (2_000, "2s"), (119_999, "119s"), (120_000, "2m"), (86_400_000, "24h")],
)
def test_durations_are_told_roughly(milliseconds: int, said: str) -> None:
    assert about(milliseconds) == said


@pytest.mark.parametrize(
    ("progress", "severity", "what"),
    [
        (Progress(Verdict.SLOW), Severity.WARNING, "shop of orders falls behind: 7 messages wait"),
        (Progress(Verdict.STALLED, ("3",), 5), Severity.WARNING, "shop of orders does not get on: 7 messages wait"),
        (Progress(Verdict.STOPPED), Severity.CRITICAL, "nobody reads for shop of orders: 7 messages wait"),
        (Progress(Verdict.STOPPED, is_paused=True), Severity.CRITICAL, "somebody has paused shop of orders"),
    ],
)
def test_what_is_not_worked_off_is_an_alarm(progress: Progress, severity: Severity, what: str) -> None:
    (one,) = found(progress={KEY: progress}, waiting={KEY: Backlog(7, None)})
    assert (one.rule, one.severity, one.since) == ("stalled", severity, progress.since)
    assert str(one.what).startswith(what)
    assert ("(3)" in str(one.what)) is bool(progress.where)


def test_what_is_worked_off_is_none() -> None:
    assert rules(progress={KEY: Progress(Verdict.WELL), ("orders", "gone"): Progress(Verdict.STOPPED)}) == []


def test_who_is_held_or_only_probed_does_not_stall() -> None:
    progress = {KEY: Progress(Verdict.STOPPED)}
    assert rules(progress=progress, subscriptions=[subscription(paused=True)]) == []
    assert rules(progress=progress, destinations={"orders": Destination(code="orders", paused=True)}) == []
    breaker = OpenBreaker("n1", *KEY, BreakerFigures("open", 1, 2))
    assert rules(progress=progress, breakers=[breaker]) == ["breaker-open"]


def test_what_nobody_reads_without_a_dispatcher_or_a_broker_follows_from_that() -> None:
    progress = {KEY: Progress(Verdict.STOPPED)}
    causes = {one.rule: one.cause for one in found(progress=progress, roles=("receiver", "compensator"))}
    assert causes == {"role-missing": "role:dispatcher", "stalled": "role:dispatcher"}
    on_kafka = {"orders": Destination(code="orders", transport="kafka")}
    down = [Part("kafka", "it does not answer", "o1", "n1")]
    causes = {one.rule: one.cause for one in found(progress=progress, destinations=on_kafka, parts=down)}
    assert causes == {"part-down": "part:kafka", "stalled": "part:kafka"}


def test_who_has_never_seen_the_others_says_nothing_of_them() -> None:
    assert rules(roles=()) == ["role-missing"] * 3
    assert rules(roles=(), is_blind=True) == []
    assert not is_known(Facts((), is_blind=True), "breaker-open:orders/shop")
