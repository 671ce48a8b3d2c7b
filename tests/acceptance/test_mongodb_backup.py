"""A bus on MongoDB is backed up beside its database: queues first, then the database, and put back the other way."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.harness.backups import missing, put_back, taken, unfinished
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers.mongodb_fixtures import database, database_url, drop, mongodb, patient

__all__ = ["database", "mongodb", "patient"]

HELD = 20


@pytest.fixture
def copied(mongodb: str) -> Iterator[str]:
    """Return the URL of a database that is to be a copy."""
    url = database_url(mongodb)
    yield url
    drop(url)


def dump(source: str, target: str) -> None:
    """Copy every document of a database, as a dump that is restored does."""
    client: MongoClient[dict[str, Any]] = MongoClient(source)
    there, here = client.get_default_database(), client[target.rpartition("/")[2]]
    for name in there.list_collection_names():
        if documents := list(there[name].find()):
            here[name].insert_many(documents)
    client.close()


def hold(bus: BusProcess, subscriber: SubscriberProcess) -> list[str]:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", subscriber.url("/shop"), paused=True, stuck_after="5s")
    return [bus.admin.send("orders", b"{}").json()["id"] for _ in range(HELD)]


def stored(bus: BusProcess, count: int) -> None:
    wait_until(lambda: len(list(bus.admin.messages(destination="orders"))) == count, within=30, what="all are stored")


def test_a_bus_and_its_database_are_put_back_as_another_bus(tmp_path: Path, database: str, copied: str) -> None:
    old_env, new_env = {"BUS_STORE": database}, {"BUS_STORE": copied}
    with SubscriberProcess(tmp_path) as subscriber, BusProcess(tmp_path / "data", env=old_env) as old:
        sent = hold(old, subscriber)
        said = taken(tmp_path / "backup", old.data, env=old_env)
        assert (said["store"], said["messages"]) == ("mongodb", 0)
        assert "mongodump" in said["note"]
        stored(old, HELD)
        dump(database, copied)
        refused = run_bus("restore", tmp_path / "backup", "--data", tmp_path / "new")
        assert refused.returncode == 1
        assert "BUS_STORE" in refused.stderr
        put_back(tmp_path / "backup", tmp_path / "new", env=new_env)
        with BusProcess(tmp_path / "new", env=new_env) as new:
            new.admin.pause("orders", "shop", paused=False)
            wait_until(lambda: not unfinished(new, "orders", sent), within=40, what="all that was kept")
            assert len(new.admin.call("GET", "/api/v1/processes").json()["items"]) == 1
        assert unfinished(old, "orders", sent) == set(sent)
        assert not missing(subscriber, ["shop"], sent)


@pytest.mark.proof
def test_a_lost_disk_of_a_bus_whose_database_lives_is_put_back(tmp_path: Path, database: str) -> None:
    env = {"BUS_STORE": database}
    with SubscriberProcess(tmp_path) as subscriber:
        with BusProcess(tmp_path / "data", env=env) as bus:
            sent = hold(bus, subscriber)
            taken(tmp_path / "backup", bus.data, env=env)
            sent.append(bus.admin.send("orders", b"{}").json()["id"])  # of which only the store knows afterwards
            wait_until(
                lambda: len(list(bus.admin.messages(destination="orders"))) == HELD + 1, within=30, what="stored"
            )
            bus.kill()
        shutil.rmtree(tmp_path / "data")
        put_back(tmp_path / "backup", tmp_path / "data", "--same-bus", env=env)
        with BusProcess(tmp_path / "data", env=env) as bus:
            bus.admin.pause("orders", "shop", paused=False)
            wait_until(lambda: not unfinished(bus, "orders", sent), within=60, what="all, also what came later")
        assert not missing(subscriber, ["shop"], sent)
