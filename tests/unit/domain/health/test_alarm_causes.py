"""Effects of one cause are one incident."""

from __future__ import annotations

import pytest

from bus.domain.destination import Destination, TransportName
from bus.domain.health.alarms import alarms
from bus.domain.health.facts import Backlog, Facts, OpenBreaker, Part, PublishTarget, Queue
from bus.domain.health.vitals import BreakerFigures, SpoolFigures
from bus.domain.subscription import AlarmLimits, Subscription

ROLES = ("receiver", "dispatcher", "compensator")
NOW = 10_000_000


def causes(**facts: object) -> dict[str, str]:
    known = {"roles": ROLES, "now": NOW, "destinations": {"orders": Destination(code="orders")}}
    return {one.key: one.cause for one in alarms(Facts(**{**known, **facts}))}  # type: ignore[arg-type]


def subscriber(name: str, url: str = "http://shop:80/in") -> Subscription:
    return Subscription(destination="orders", name=name, url=url, alarms=AlarmLimits(backlog=1))


def test_a_broker_that_every_process_misses_is_one_cause_with_what_waits_for_it() -> None:
    parts = [Part("kafka", "away", owner, owner) for owner in ("o1", "o2", "o3")]
    parts.append(Part("kafka queues of orders", "cannot be made", "o1", "o1"))
    kafka = Destination(code="orders", transport=TransportName.KAFKA)
    found = causes(
        parts=parts,
        destinations={"orders": kafka},
        subscriptions=[subscriber("a"), subscriber("b")],
        waiting={("orders", name): Backlog(9, None) for name in ("a", "b")},
    )
    assert len(found) == 6
    assert set(found.values()) == {"part:kafka"}


def test_what_waits_on_another_transport_has_its_own_cause() -> None:
    found = causes(
        parts=[Part("kafka", "away", "o1", "n1")],
        subscriptions=[subscriber("a")],
        waiting={("orders", "a"): Backlog(9, None)},
    )
    assert found["backlog:orders/a"] == "subscription:orders/a"


def test_a_store_that_is_away_is_one_cause_with_what_needs_it() -> None:
    names = ("store", "configuration", "order", "stuck", "retention", "permits", "events")
    old = Queue("o1", "n1", "outcomes", SpoolFigures(1, 90, 100, 0, 1))
    assert set(causes(parts=[Part(name, "away", "o1", "n1") for name in names], queues=[old]).values()) == {
        "part:store"
    }
    assert set(causes(parts=[Part("configuration", "x", "o1", "n1")]).values()) == {"part:configuration"}


def test_a_host_that_is_down_is_one_cause_for_all_who_live_there() -> None:
    down = OpenBreaker("n1", "orders", "a", BreakerFigures("open", 1, 2))
    found = causes(
        breakers=[down],
        subscriptions=[subscriber("a"), subscriber("b", "http://shop:80/other"), subscriber("c", "http://mail/")],
        waiting={("orders", name): Backlog(9, None) for name in ("a", "b", "c")},
    )
    assert found == {
        "breaker-open:orders/a": "host:shop:80",
        "backlog:orders/a": "host:shop:80",
        "backlog:orders/b": "host:shop:80",
        "backlog:orders/c": "subscription:orders/c",
    }


def test_without_a_dispatcher_all_that_waits_has_that_cause() -> None:
    full = Queue("o1", "n1", "receiver", SpoolFigures(1, 90, 100, 0, 1))
    found = causes(
        roles=("receiver", "compensator"),
        subscriptions=[subscriber("a")],
        waiting={("orders", "a"): Backlog(9, 1)},
        queues=[full],
        parts=[Part("dispatchers", "no dispatcher is alive", "o1", "n1")],
    )
    assert len(found) == 6
    assert set(found.values()) == {"role:dispatcher"}


def test_without_a_receiver_it_is_no_wonder_that_nothing_comes() -> None:
    few = {"destinations": {"orders": Destination(code="orders", pv_min=1)}, "accepted": {}}
    assert causes(roles=ROLES[1:], **few)["volume-low:orders"] == "role:receiver"
    assert causes(**few) == {"volume-low:orders": "destination:orders"}


@pytest.mark.parametrize("is_down", [True, False])
def test_who_publishes_elsewhere_does_so_because_of_the_primary(is_down: bool) -> None:
    parts = [Part("rabbitmq-primary", "away", "o1", "n1")] if is_down else []
    elsewhere = [
        PublishTarget(f"u{n}", "rabbitmq", "rabbitmq-backup", "rabbitmq-primary", is_chosen=False) for n in (1, 2)
    ]
    found = causes(parts=parts, publishing=elsewhere)
    assert len(found) == 2 + is_down
    assert set(found.values()) == {"part:rabbitmq-primary"}


def test_one_queue_on_many_machines_is_one_cause() -> None:
    old = [Queue(f"o{n}", f"n{n}", "receiver", SpoolFigures(1, 1, 100, 0, 1)) for n in (1, 2, 3)]
    found = causes(queues=old)
    assert len(found) == 3
    assert set(found.values()) == {"spool:receiver"}


def test_what_follows_from_a_cause_does_so_for_a_while_after_it_is_mended() -> None:
    kafka = Destination(code="orders", transport=TransportName.KAFKA)
    waits = {"subscriptions": [subscriber("a")], "waiting": {("orders", "a"): Backlog(9, None)}}
    assert causes(lasting=["role:dispatcher"], **waits) == {"backlog:orders/a": "role:dispatcher"}
    assert causes(lasting=["host:shop:80"], **waits) == {"backlog:orders/a": "host:shop:80"}
    assert causes(lasting=["part:kafka"], **waits) == {"backlog:orders/a": "subscription:orders/a"}
    assert causes(lasting=["part:kafka"], destinations={"orders": kafka}, **waits) == {"backlog:orders/a": "part:kafka"}
