"""Alarms from facts, with severity and next step."""

from __future__ import annotations

import msgspec
import pytest

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.alarms import alarms
from bus.domain.health.facts import Facts, OpenBreaker, Part, PublishTarget, Queue
from bus.domain.health.vitals import (
    BreakerFigures,
    RejectedFigures,
    SpoolFigures,
    TurnedAwayFigures,
    UnreachableProcess,
)
from bus.domain.subscription import PAUSED_BY_410, Subscription

ROLES = ("receiver", "dispatcher", "compensator", "admin")


def only(**facts: object) -> Alarm:
    """Return the one alarm of a bus that is well but for these facts."""
    (found,) = alarms(Facts(**{"roles": ROLES, **facts}))  # type: ignore[arg-type]
    assert str(found.what)
    assert str(found.next_step)
    assert found.link
    return found


def none(**facts: object) -> bool:
    return not alarms(Facts(**{"roles": ROLES, **facts}))  # type: ignore[arg-type]


def queue(name: str = "receiver", **changes: object) -> Queue:
    fields = {"records": 3, "bytes": 10, "limit": 100, "damaged": 0, "oldest": 500}
    return Queue("o1", "n1", name, SpoolFigures(**fields | changes))  # type: ignore[arg-type]


def test_a_bus_that_is_well_has_none() -> None:
    paused = Subscription(destination="orders", name="x", url="u", paused=True, paused_reason="paused by a person")
    assert none(
        queues=[queue(), queue("quarantine", records=0)],
        subscriptions=[paused],
        publishing=[PublishTarget("u", "rabbitmq", "a", "a", is_chosen=False)],
        dead={("orders", "x"): 0},
        orphans={"n1": 0},
    )


@pytest.mark.parametrize("role", ["receiver", "dispatcher", "compensator"])
def test_a_role_that_nobody_has_is_critical(role: str) -> None:
    found = only(roles=[other for other in ROLES if other != role])
    assert found.severity is Severity.CRITICAL
    assert str(found.what).startswith(f"no {role} is alive")
    assert str(found.next_step) == f"start one: bus run {role}"
    assert found.link == "processes"


def test_a_bus_without_an_admin_is_no_alarm_of_the_admin() -> None:
    assert none(roles=ROLES[:3])


@pytest.mark.parametrize(("records", "severity"), [(0, Severity.WARNING), (7, Severity.CRITICAL)])
def test_an_unreachable_process_is_an_alarm_with_its_records(records: int, severity: Severity) -> None:
    lost = UnreachableProcess(
        "o2", "n2:8700", "http://n2:8700", ("receiver", "dispatcher"), 1000, records, "o2", (), False
    )
    found = only(unreachable=[lost])
    assert (found.rule, found.severity, found.since, found.cause) == (
        "process-unreachable",
        severity,
        1000,
        "process:o2",
    )
    assert "n2:8700 (receiver, dispatcher)" in str(found.what)
    assert f"{records} records" in str(found.what)


def test_the_last_process_of_a_role_belongs_to_the_missing_role() -> None:
    lost = UnreachableProcess("o2", "n2:8700", "http://n2:8700", ("receiver", "dispatcher"), 1000, 0, "o2", (), False)
    found = alarms(Facts(unreachable=[lost], roles=[one for one in ROLES if one != "dispatcher"]))
    causes = {one.rule: one.cause for one in found}
    assert causes == {"role-missing": "role:dispatcher", "process-unreachable": "role:dispatcher"}


def test_a_part_that_is_down_is_critical_and_names_its_process() -> None:
    found = only(parts=[Part("store", "it does not answer", "o2", "n2")])
    assert (found.severity, found.link) == (Severity.CRITICAL, "processes/o2")
    assert "store" in str(found.what)
    assert "n2" in str(found.what)
    assert "it does not answer" in str(found.what)


def test_the_trouble_of_a_spool_is_told_by_its_figures_only() -> None:
    found = only(parts=[Part("spool receiver", "full", "o1", "n1")], queues=[queue(bytes=100)])
    assert found.severity is Severity.CRITICAL
    assert "full" in str(found.what)


@pytest.mark.parametrize(
    ("used", "severity"), [(79, None), (80, Severity.WARNING), (99, Severity.WARNING), (100, Severity.CRITICAL)]
)
def test_a_spool_is_an_alarm_from_four_fifths_on(used: int, severity: Severity | None) -> None:
    if severity is None:
        assert none(queues=[queue(bytes=used)])
    else:
        found = only(queues=[queue(bytes=used)])
        assert (found.severity, found.since, found.link) == (severity, 500, "processes/o1")
        assert "nothing stored is lost" in str(found.what)


def test_a_spool_without_a_limit_is_never_nearly_full() -> None:
    assert none(queues=[queue(limit=0, bytes=1 << 40)])


def test_damaged_records_are_an_alarm() -> None:
    found = only(queues=[queue(damaged=2)])
    assert (found.severity, str(found.what)) == (
        Severity.WARNING,
        "2 damaged records of spool receiver of n1 were set aside",
    )


def test_what_others_wrote_to_the_brokers_is_an_alarm() -> None:
    found = only(queues=[queue("quarantine", records=4)])
    assert found.severity is Severity.WARNING
    assert str(found.what).startswith("4 records on the brokers are not messages of the bus")


def test_the_breakers_of_a_subscription_are_one_alarm_since_the_first_of_them() -> None:
    found = only(
        breakers=[
            OpenBreaker("n2", "orders", "billing", BreakerFigures("open", 900, 1000)),
            OpenBreaker("n1", "orders", "billing", BreakerFigures("half_open", 700, 1000)),
        ]
    )
    assert (found.severity, found.since) == (Severity.WARNING, 700)
    assert (found.destination, found.subscription) == ("orders", "billing")
    assert found.link == "destinations/orders/subscriptions/billing"
    assert "open on n1, n2" in str(found.what)


@pytest.mark.parametrize(
    ("answered", "what", "step"),
    [
        (None, "does not answer", "send it a sample"),
        (503, "fails with 503", "send it a sample"),
        (429, "fails with 429", "send it a sample"),
        (302, "fails with 302", "send it a sample"),
    ],
)
def test_an_open_breaker_says_what_the_subscriber_did(answered: int | None, what: str, step: str) -> None:
    older = OpenBreaker("n1", "orders", "billing", BreakerFigures("open", 700, 900, 500))
    found = only(breakers=[older, OpenBreaker("n2", "orders", "billing", BreakerFigures("open", 900, 1000, answered))])
    assert f"billing of orders {what}; its breaker is open on n1, n2" in str(found.what)
    assert step in str(found.next_step)


def test_a_subscriber_that_is_gone_is_an_alarm() -> None:
    gone = Subscription(destination="orders", name="x", url="u", paused=True, paused_reason=PAUSED_BY_410)
    found = only(subscriptions=[gone])
    assert (found.destination, found.subscription, found.severity) == ("orders", "x", Severity.WARNING)
    assert "its messages wait" in str(found.what)


def test_deaths_are_an_alarm_of_their_subscription() -> None:
    found = only(dead={("orders", "billing"): 7})
    assert str(found.what).startswith("7 deliveries to billing of orders died")
    assert (found.destination, found.subscription) == ("orders", "billing")


@pytest.mark.parametrize(("is_chosen", "severity"), [(False, Severity.WARNING), (True, Severity.INFO)])
def test_publishing_to_the_backup_is_worse_when_nobody_chose_it(is_chosen: bool, severity: Severity) -> None:
    found = only(publishing=[PublishTarget("http://r", "rabbitmq", "backup", "primary", is_chosen)])
    assert (found.severity, found.link) == (severity, "clusters")
    assert "http://r publishes over rabbitmq to backup" in str(found.what)


def test_orphans_are_told_by_machine() -> None:
    found = only(orphans={"n1": 3, "n2": 0})
    assert (found.severity, found.link) == (Severity.INFO, "orphans")
    assert str(found.what).startswith("3 local queues on n1")


def test_an_alarm_has_its_template_and_values() -> None:
    found = only(dead={("orders", "billing"): 7})
    assert (
        found.what.template
        == "{count} deliveries to {name} of {destination} died within the last hour: they are not tried again"
    )
    assert found.what.values == {"count": 7, "name": "billing", "destination": "orders"}


def test_the_worst_come_first_and_then_the_oldest() -> None:
    found = alarms(
        Facts(
            roles=ROLES[1:],
            queues=[queue(bytes=90, oldest=50), queue("direct", bytes=85, oldest=40)],
            orphans={"n1": 1},
            dead={("orders", "billing"): 1},
        )
    )
    assert [one.severity for one in found] == [
        Severity.CRITICAL,
        *(Severity.WARNING, Severity.WARNING, Severity.WARNING),
        Severity.INFO,
    ]
    assert [one.since for one in found] == [None, 40, 50, None, None]


def test_what_was_refused_for_good_names_the_producer_that_keeps_it() -> None:
    figures = RejectedFigures("shop", "orders", 422, "too odd", 2, 500)
    found = only(rejected=[figures, msgspec.structs.replace(figures, count=3, since=400)])
    assert str(found.what) == "5 messages of shop to orders were refused for good with 422: too odd"
    assert (found.severity, found.destination, found.since) == (Severity.WARNING, "orders", 400)
    assert "bus spool ls" in str(found.next_step)
    unknown = only(rejected=[msgspec.structs.replace(figures, status=404)])
    assert (unknown.destination, unknown.link) == (None, "destinations")


def test_what_is_refused_for_now_names_the_destination_that_used_it_up() -> None:
    parts = [TurnedAwayFigures("orders", "spool_share", 2, 500), TurnedAwayFigures("orders", "spool_share", 3, 400)]
    found = only(turned_away=parts)
    assert str(found.what).startswith("5 messages to orders were refused for now")
    assert (found.severity, found.destination, found.link) == (Severity.WARNING, "orders", "destinations/orders")
    assert found.since == 400


def test_what_is_over_a_rate_is_a_note_and_of_a_key_it_concerns_the_bus() -> None:
    found = only(turned_away=[TurnedAwayFigures("orders", "rate", 2, 500)])
    assert (found.severity, found.destination) == (Severity.INFO, "orders")
    of_key = only(turned_away=[TurnedAwayFigures("key shop", "key_rate", 2, 500)])
    assert (of_key.severity, of_key.destination, of_key.link) == (Severity.INFO, None, "keys")
    assert str(of_key.what).startswith("2 messages of key shop were refused for now")
