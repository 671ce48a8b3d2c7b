"""Alarms from the health of the store, with severity and grouping."""

from __future__ import annotations

import pytest

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.alarms import alarms, is_known
from bus.domain.health.facts import Facts, Part
from bus.domain.health.vitals import ReplicaFigures, StoreFigures
from bus.domain.times import DAY, HOUR, MINUTE, SECOND

ROLES = ("receiver", "dispatcher", "compensator")
MIB = 2**20
WELL = (
    ReplicaFigures("a:27017", "PRIMARY"),
    ReplicaFigures("b:27017", "SECONDARY", 500),
    ReplicaFigures("c", "ARBITER"),
)


def found(store: StoreFigures | None, *active: str, **facts: object) -> list[Alarm]:
    return alarms(Facts(**{"roles": ROLES, "store": store, **facts}), active=active)  # type: ignore[arg-type]


def test_one_that_is_well_or_tells_nothing_is_no_alarm() -> None:
    assert found(None) == found(StoreFigures()) == []
    assert found(StoreFigures(WELL, oplog=2 * DAY, oplog_used=1.0)) == []
    assert found(StoreFigures(bytes=10**12, log=64 * MIB, unfolded=DAY)) == []


@pytest.mark.parametrize("state", ["(not reachable/healthy)", "RECOVERING", "DOWN", "ROLLBACK"])
def test_a_member_that_is_not_well_is_one_and_critical_without_a_primary(state: str) -> None:
    (one,) = found(StoreFigures((*WELL, ReplicaFigures("d:27017", state))))
    assert (one.rule, one.severity, one.subject) == ("store-replica", Severity.WARNING, "d:27017")
    assert str(one.what) == f"d:27017 of the store's replica set is {state}"
    (one,) = found(StoreFigures((ReplicaFigures("d:27017", state), WELL[1])))
    assert one.severity is Severity.CRITICAL


@pytest.mark.parametrize(("behind", "count"), [(59 * SECOND, 0), (60 * SECOND, 1), (HOUR, 1)])
def test_a_member_that_is_far_behind_is_one(behind: int, count: int) -> None:
    alarmed = found(StoreFigures((WELL[0], ReplicaFigures("b", "SECONDARY", behind))))
    assert [one.rule for one in alarmed] == ["store-replica"] * count


def test_an_oplog_that_is_full_and_short_is_one() -> None:
    (one,) = found(StoreFigures(WELL, oplog=5 * HOUR, oplog_used=0.97))
    assert (one.rule, one.severity) == ("store-oplog", Severity.WARNING)
    assert "goes back 5h" in str(one.what)
    assert found(StoreFigures(WELL, oplog=5 * HOUR, oplog_used=0.5)) == []
    assert found(StoreFigures(WELL, oplog=29 * HOUR, oplog_used=1.0), "store-oplog:store")
    assert not found(StoreFigures(WELL, oplog=31 * HOUR, oplog_used=1.0), "store-oplog:store")


def test_a_log_that_grows_and_does_not_come_into_its_file_is_one() -> None:
    (one,) = found(StoreFigures(bytes=10**9, log=256 * MIB, unfolded=10 * MINUTE))
    assert (one.rule, one.subject) == ("store-checkpoint", "store")
    assert "has 256 MiB, and nothing of it came into its file for 10m" in str(one.what)
    assert found(StoreFigures(bytes=10**9, log=255 * MIB, unfolded=DAY)) == []
    assert found(StoreFigures(bytes=10**9, log=10**9, unfolded=9 * MINUTE)) == []


def test_it_is_one_incident_with_the_store_that_is_not_well() -> None:
    alarmed = found(
        StoreFigures((ReplicaFigures("a", "DOWN"),)), parts=[Part("store", "it does not answer", "o1", "n1")]
    )
    assert {one.cause for one in alarmed} == {"part:store"}
    assert len(alarmed) == 2


@pytest.mark.parametrize("rule", ["store-replica", "store-oplog", "store-checkpoint"])
def test_what_it_told_stays_while_it_does_not_answer(rule: str) -> None:
    assert not is_known(Facts(roles=ROLES), f"{rule}:a")
    assert is_known(Facts(roles=ROLES, store=StoreFigures()), f"{rule}:a")
