"""Alarms from the administration of brokers."""

from __future__ import annotations

import pytest

from bus.domain.destination import Destination
from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.alarms import alarms
from bus.domain.health.facts import Backlog, Facts, Part
from bus.domain.health.vitals import BrokerFigures, NodeFigures
from bus.domain.subscription import Subscription

ROLES = ("receiver", "dispatcher", "compensator")
CLUSTER = "rabbitmq-primary"
GIB = 2**30


def found(*nodes: NodeFigures, in_flow: int = 0, **facts: object) -> list[Alarm]:
    broker = BrokerFigures(CLUSTER, nodes, connections=9, in_flow=in_flow)
    return alarms(Facts(**{"roles": ROLES, "brokers": [broker], **facts}))  # type: ignore[arg-type]


def test_a_cluster_that_is_well_is_no_alarm() -> None:
    assert found(NodeFigures("a", is_running=True), NodeFigures("b", is_running=True)) == []


@pytest.mark.parametrize(
    ("node", "rule", "severity", "what"),
    [
        (
            NodeFigures("a", is_running=True, partitions=("b", "c", "d", "e")),
            "broker-partition",
            Severity.CRITICAL,
            "a of rabbitmq-primary does not see b, c, d and 1 more, though they run",
        ),
        (NodeFigures("a", is_running=False), "broker-node", Severity.WARNING, "a of rabbitmq-primary is down"),
        (
            NodeFigures("a", is_running=True, memory_alarm=True, memory=3 * GIB, memory_limit=2 * GIB),
            "broker-memory",
            Severity.CRITICAL,
            "a of rabbitmq-primary has 3.0 GiB in memory, with a limit of 2.0 GiB: the cluster takes no messages",
        ),
        (
            NodeFigures("a", is_running=True, disk_alarm=True, disk_free=1000, disk_limit=2000),
            "broker-disk",
            Severity.CRITICAL,
            "a of rabbitmq-primary has 1000 B left on its disk, with a limit of 2.0 KiB: the cluster takes no messages",
        ),
    ],
)
def test_a_node_that_is_not_well_is_one(node: NodeFigures, rule: str, severity: Severity, what: str) -> None:
    (one,) = found(node, NodeFigures("b", is_running=True))
    assert (one.rule, one.severity, str(one.what)) == (rule, severity, what)
    assert (one.subject, one.cause, one.link) == ("a@rabbitmq-primary", "part:rabbitmq-primary", "clusters")


def test_connections_that_are_slowed_down_are_one() -> None:
    (one,) = found(in_flow=4)
    assert (one.rule, one.severity) == ("broker-flow", Severity.WARNING)
    assert str(one.what) == "rabbitmq-primary slows down or holds 4 of its 9 connections"


def test_a_cluster_that_takes_nothing_is_the_cause_of_what_waits_and_of_the_part_that_is_not_well() -> None:
    lane = ("orders", "shop")
    causes = {
        one.rule: one.cause
        for one in found(
            NodeFigures("a", is_running=True, memory_alarm=True),
            parts=[Part(CLUSTER, "it is blocked", "o1", "n1")],
            destinations={"orders": Destination(code="orders", transport="rabbitmq")},
            subscriptions=[Subscription(destination="orders", name="shop", url="http://shop/")],
            waiting={lane: Backlog(20_000, None)},
        )
    }
    assert set(causes) == {"broker-memory", "part-down", "backlog"}
    assert set(causes.values()) == {"part:rabbitmq-primary"}
