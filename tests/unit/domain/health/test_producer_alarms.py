"""Producers whose messages wait in their queues: from where on that is an alarm, and which queues count once."""

from __future__ import annotations

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.alarms import alarms
from bus.domain.health.facts import Facts, ProducerQueue
from bus.domain.health.vitals import ProducerFigures
from bus.domain.times import MINUTE

ROLES = ("receiver", "dispatcher", "compensator")


def queue(source: str, number: str, oldest: int, records: int = 5, path: str = "") -> ProducerQueue:
    return ProducerQueue("n1", ProducerFigures(source, number, records, oldest, path))


def found(*queues: ProducerQueue, active: tuple[str, ...] = (), roles: tuple[str, ...] = ROLES) -> list[Alarm]:
    return alarms(Facts(roles=roles, producers=queues), active=active)


def test_a_message_that_waits_for_a_quarter_of_an_hour_is_an_alarm() -> None:
    assert found(queue("shop", "a", 15 * MINUTE - 1)) == []
    (one,) = found(queue("shop", "a", 15 * MINUTE), queue("shop", "b", 40 * MINUTE), queue("shop", "c", 1))
    assert (one.rule, one.severity, one.subject) == ("producer-queue", Severity.WARNING, "shop")
    assert str(one.what) == "10 messages wait in the queues of shop, the first of them for 40m"


def test_it_is_over_once_it_is_well_below() -> None:
    assert found(queue("shop", "a", 13 * MINUTE), active=("producer-queue:shop",))
    assert found(queue("shop", "a", 11 * MINUTE), active=("producer-queue:shop",)) == []


def test_a_queue_of_which_a_sweeper_tells_as_well_counts_once_with_its_place() -> None:
    (one,) = found(queue("shop", "a", 20 * MINUTE, 7, "/spool/shop-1-a.sdk"), queue("shop", "a", 16 * MINUTE))
    assert str(one.what).startswith("7 messages wait in the queues of shop, the first of them for 20m")
    assert str(one.what).endswith("(n1:/spool/shop-1-a.sdk)")


def test_without_a_receiver_it_follows_from_that() -> None:
    causes = {one.rule: one.cause for one in found(queue("shop", "a", 20 * MINUTE), roles=ROLES[1:])}
    assert causes == {"role-missing": "role:receiver", "producer-queue": "role:receiver"}
