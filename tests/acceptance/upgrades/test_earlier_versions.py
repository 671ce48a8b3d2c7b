"""Data of every released version: the present bus shows all of it, and delivers what was not done.

A version's files are made by ``left_behind.py`` with that version, once, and then stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from bus.bootstrap.data_format import refuse_newer
from bus.settings import load_settings
from tests.acceptance.upgrades.left_behind import (
    BACKUP,
    DATA,
    FOLDER,
    LATE,
    PRODUCER,
    SUBSCRIPTIONS,
    UNSENT,
    Told,
    make,
    pack,
    unpack,
)
from tests.harness.backups import put_back
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

ARCHIVES = sorted(FOLDER.glob("*.tar.xz"))
OPEN = ("pending", "retrying", "resend")


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def told(request: pytest.FixtureRequest, tmp_path: Path) -> Told:
    return unpack(request.param, tmp_path)


def states(bus: BusProcess, ids: Iterable[str]) -> dict[str, dict[str, str]]:
    return {
        each: {delivery["subscription"]: delivery["status"] for delivery in bus.admin.trace(each)["deliveries"]}
        for each in ids
    }


def go_on(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    """Have all subscriptions deliver to a subscriber that takes everything."""
    lanes = [("orders", name) for name in SUBSCRIPTIONS if name != "gone"] + [("late", "late"), ("keys", "parking")]
    for code, name in lanes:
        path = f"/api/v1/destinations/{code}/subscriptions/{name}"
        fields = {"url": subscriber.url(f"/{name}"), "paused": False}
        bus.admin.call("PATCH", path, json=fields).raise_for_status()
    bus.admin.call("PUT", "/api/v1/rates", json={"receiver": None, "dispatcher": None}).raise_for_status()


def judge(bus: BusProcess, subscriber: SubscriberProcess, told: Told) -> None:
    """Compare what is shown with what that version told, and see everything delivered that was not done."""
    shown = states(bus, set(told.states) - {told.scheduled})
    assert shown == {each: told.states[each] for each in shown}
    go_on(bus, subscriber)
    wanted = {
        each: {name: "delivered" if status in OPEN else status for name, status in found.items()}
        for each, found in told.states.items()
    }
    wanted[told.scheduled] = {**wanted[told.scheduled], "filtered": "skipped"}
    wanted |= {each: {"late": "delivered"} for each in told.late}
    wait_until(
        lambda: known(bus, wanted) == wanted, within=60, what="what was not done", state=lambda: known(bus, wanted)
    )
    arrived = {(call.path.removeprefix("/"), call.id) for call in subscriber.calls() if call.status == 200}
    was_open = {
        (name, each) for each, found in told.states.items() for name, status in found.items() if status in OPEN
    } - {("filtered", told.scheduled)}
    assert arrived == was_open | {("late", each) for each in told.late}


def known(bus: BusProcess, wanted: Iterable[str]) -> dict[str, dict[str, str]]:
    there = {message["id"] for message in bus.admin.messages()}
    return states(bus, there & set(wanted))


def test_its_files_have_messages_in_every_state(told: Told, tmp_path: Path) -> None:
    found = {status for each in told.states.values() for status in each.values()}
    every = {"pending", "delivered", "retrying", "resend", "dead", "parked", "skipped", "canceled"}
    assert found == every
    assert (len(told.late), len(told.unsent)) == (LATE, UNSENT)
    refuse_newer(load_settings(None, {"data": tmp_path / DATA}))


@pytest.fixture
def subscriber(tmp_path: Path) -> Iterator[SubscriberProcess]:
    with SubscriberProcess(tmp_path) as process:
        yield process


def test_its_bus_goes_on(told: Told, tmp_path: Path, subscriber: SubscriberProcess) -> None:
    with BusProcess(tmp_path / DATA) as bus:
        judge(bus, subscriber, told)
        done = run_bus("spool", "drain", tmp_path / PRODUCER, "--json", "--url", bus.url)
        assert done.returncode == 0, done.stdout
        assert json.loads(done.stdout)["items"][0]["sent"] == UNSENT
        wait_until(
            lambda: set(told.unsent) <= {call.id for call in subscriber.calls("/late")},
            within=30,
            what="what its producer had not sent",
        )


@pytest.mark.proof
def test_what_this_version_leaves_is_gone_on_with(tmp_path: Path, subscriber: SubscriberProcess) -> None:
    (tmp_path / "made" / "left").mkdir(parents=True)
    make(tmp_path / "made" / "left")
    pack(tmp_path / "made" / "left", tmp_path / "this.tar.xz")
    told = unpack(tmp_path / "this.tar.xz", tmp_path)
    with BusProcess(tmp_path / DATA) as bus:
        judge(bus, subscriber, told)


def test_its_backup_is_restored(told: Told, tmp_path: Path, subscriber: SubscriberProcess) -> None:
    put_back(tmp_path / BACKUP, tmp_path / "new")
    with BusProcess(tmp_path / "new") as bus:
        judge(bus, subscriber, told)
