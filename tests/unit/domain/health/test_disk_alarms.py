"""Alarms about disks, and the effects of a full one."""

from __future__ import annotations

import pytest

from bus.domain.health.alarm import Alarm, Severity
from bus.domain.health.alarms import alarms
from bus.domain.health.facts import Disk, Facts, Queue
from bus.domain.health.vitals import DiskFigures, SpoolFigures
from bus.domain.times import HOUR, MINUTE

ROLES = ("receiver", "dispatcher", "compensator", "admin")
GIB = 2**30


def disk(free: float, full_in: int | None = None, *, device: int = 7, owner: str = "o1", path: str = "/data") -> Disk:
    return Disk(owner, "n1", DiskFigures(path, device, round(free * GIB), 100 * GIB, GIB // 4, full_in))


def found(*disks: Disk, active: tuple[str, ...] = ()) -> list[Alarm]:
    return alarms(Facts(roles=ROLES, disks=disks), active=active)


def severity(*disks: Disk, active: tuple[str, ...] = ()) -> Severity | None:
    return next((one.severity for one in found(*disks, active=active)), None)


@pytest.mark.parametrize(
    ("free", "expected"), [(0.2, Severity.CRITICAL), (0.3, Severity.WARNING), (14.9, Severity.WARNING), (15.1, None)]
)
def test_what_is_left_of_it_says_how_bad_it_is(free: float, expected: Severity | None) -> None:
    assert severity(disk(free)) is expected


@pytest.mark.parametrize(
    ("full_in", "expected"),
    [
        (0, Severity.CRITICAL),
        (2 * HOUR, Severity.CRITICAL),
        (2 * HOUR + 1, Severity.WARNING),
        (24 * HOUR, Severity.WARNING),
        (24 * HOUR + 1, None),
        (None, None),
    ],
)
def test_when_it_will_be_full_says_how_bad_it_is(full_in: int | None, expected: Severity | None) -> None:
    assert severity(disk(39, full_in)) is expected


@pytest.mark.parametrize(("full_in", "expected"), [(2 * HOUR, Severity.CRITICAL), (2 * HOUR + 1, None)])
def test_while_much_is_left_an_hour_says_nothing_of_a_day(full_in: int, expected: Severity | None) -> None:
    assert severity(disk(40, full_in)) is expected


def test_it_says_how_much_is_left_and_when_it_is_full() -> None:
    (one,) = found(disk(30, 5 * HOUR))
    assert str(one.what) == "the disk of /data on n1 has 30.0 GiB left, and is full in 5h if it goes on as of late"
    assert (one.subject, one.cause, one.link) == ("7@n1", "disk:7@n1", "processes/o1")
    (one,) = found(disk(0.1))
    assert "full but for 102 MiB: new messages are refused below 256 MiB" in str(one.what)


def test_it_is_over_only_well_above_its_limits() -> None:
    assert severity(disk(18), active=("disk:7@n1",)) is Severity.WARNING
    assert severity(disk(19), active=("disk:7@n1",)) is None
    assert severity(disk(49, 29 * HOUR), active=("disk:7@n1",)) is Severity.WARNING
    assert severity(disk(49, 31 * HOUR), active=("disk:7@n1",)) is None
    assert severity(disk(50, 29 * HOUR), active=("disk:7@n1",)) is None


def test_a_disk_of_several_processes_is_told_once() -> None:
    one, *others = found(disk(50, 5 * HOUR, path="/data/p1", owner="o2"), disk(50, 90 * MINUTE), disk(5, device=8))
    assert (one.severity, one.link) == (Severity.CRITICAL, "processes/o1")
    assert [other.subject for other in others] == ["8@n1"]


def test_a_queue_that_is_full_follows_from_its_disk() -> None:
    queues = [Queue(owner, "n1", "receiver", SpoolFigures(3, 100, 100, 0, 500)) for owner in ("o1", "o2")]
    facts = Facts(roles=ROLES, disks=[disk(0.1), disk(5, device=8, owner="o2")], queues=queues)
    causes = {one.key: one.cause for one in alarms(facts)}
    assert causes["spool-full:receiver@o1"] == causes["disk:7@n1"] == "disk:7@n1"
    assert causes["spool-full:receiver@o2"] == "spool:receiver"
