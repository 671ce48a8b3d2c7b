"""Answers of a replica set, as a server gives them to the driver: its members, the time and the size of its oplog."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from bson.timestamp import Timestamp

from bus.domain.health.vitals import ReplicaFigures
from bus.stores.mongodb.health.replica_set import members_of, used_of, window_of

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def member(name: str, state: str, behind: float = 0, **more: object) -> dict[str, object]:
    optime = NOON - timedelta(seconds=behind)
    return {"_id": 0, "name": name, "health": 1.0, "stateStr": state, "optimeDate": optime, **more}


def test_members_have_their_states_and_secondaries_how_far_they_are_behind() -> None:
    status = {
        "set": "rs0",
        "ok": 1.0,
        "members": [
            member("b:27017", "SECONDARY", 2.5),
            member("a:27017", "PRIMARY"),
            member("c:27017", "SECONDARY", -1),
            {"_id": 3, "name": "d:27017", "health": 0.0, "stateStr": "(not reachable/healthy)"},
            member("e:27017", "ARBITER", 10**6),
        ],
    }
    assert members_of(status) == (
        ReplicaFigures("b:27017", "SECONDARY", 2500),
        ReplicaFigures("a:27017", "PRIMARY"),
        ReplicaFigures("c:27017", "SECONDARY", 0),
        ReplicaFigures("d:27017", "(not reachable/healthy)"),
        ReplicaFigures("e:27017", "ARBITER"),
    )


def test_without_a_primary_nobody_knows_who_is_behind() -> None:
    status = {"members": [member("b", "SECONDARY", 50), {"name": "c", "stateStr": "SECONDARY"}]}
    assert [one.behind for one in members_of(status)] == [0, 0]
    assert members_of({}) == ()


def test_a_server_that_makes_up_members_fills_no_memory() -> None:
    assert len(members_of({"members": [member(f"m{number}", "SECONDARY") for number in range(1000)]})) == 50


def test_the_window_is_from_the_first_entry_to_the_last() -> None:
    assert window_of({"ts": Timestamp(1000, 4)}, {"ts": Timestamp(4600, 1)}) == 3_600_000
    assert window_of({"ts": Timestamp(1000, 4)}, {"ts": Timestamp(900, 1)}) == 0


@pytest.mark.parametrize("entry", [None, {}, {"ts": 5}, {"ts": "soon"}])
def test_an_oplog_that_is_empty_or_odd_has_none(entry: dict[str, object] | None) -> None:
    assert window_of(entry, {"ts": Timestamp(1000, 4)}) is None
    assert window_of({"ts": Timestamp(1000, 4)}, entry) is None


@pytest.mark.parametrize(
    ("size", "used"),
    [({"size": 50, "maxSize": 100}, 0.5), ({"size": 50}, 0.0), ({"size": 1, "maxSize": 0}, 0.0), ({}, 0.0)],
)
def test_the_share_in_use_is_of_what_it_may_have(size: dict[str, object], used: float) -> None:
    assert used_of(size) == used
