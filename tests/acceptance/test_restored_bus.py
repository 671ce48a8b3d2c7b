"""A bus out of a backup is one of its own, beside the old one too, and goes on with what the old one kept in order."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.harness.backups import Load, configure, missing, put_back, taken, unfinished
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.cluster import Cluster
from tests.harness.process_group import ProcessGroup
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.proofs.figures import Figures, note

NAMES = ("fast", "slow")
PATHS = ("/slow=delay:0.03",)
KEYS = 4


def owners(bus: BusProcess) -> set[str]:
    return {one["owner"] for one in bus.admin.call("GET", "/api/v1/processes").raise_for_status().json()["items"]}


def test_two_buses_out_of_one_know_nothing_of_each_other_and_both_keep_the_order(tmp_path: Path) -> None:
    with SubscriberProcess(tmp_path) as subscriber, BusProcess(tmp_path / "data") as old:
        old.admin.destination("orders", ordering="key")
        old.admin.subscription("orders", "shop", subscriber.url("/old"), paused=True)
        sent = [old.admin.send("orders", b'{"seq":%d}' % n, bus_key=f"k{n % KEYS}").json()["id"] for n in range(40)]
        taken(tmp_path / "backup", old.data)
        put_back(tmp_path / "backup", tmp_path / "new")
        with BusProcess(tmp_path / "new") as new:
            time.sleep(3)  # time enough to tell the others of itself
            assert len(owners(old)) == len(owners(new)) == 1
            assert owners(old).isdisjoint(owners(new))
            new.admin.subscription("orders", "shop", subscriber.url("/new"), paused=False)
            sent += [new.admin.send("orders", b'{"seq":%d}' % n, bus_key=f"k{n % KEYS}").json()["id"] for n in (40, 41)]
            wait_until(lambda: not unfinished(new, "orders", sent), within=30, what="all that was kept and more")
        assert not subscriber.calls("/old")
        arrived = [(call.key, call.seq) for call in subscriber.calls("/new")]
        assert len(arrived) == len(set(arrived)) == 42
        assert all(
            [seq for own, seq in arrived if own == key] == sorted(seq for own, seq in arrived if own == key)
            for key, _ in arrived
        )


def test_a_lost_store_is_put_back_to_the_queues_that_live(tmp_path: Path) -> None:
    with SubscriberProcess(tmp_path) as subscriber, BusProcess(tmp_path / "data") as bus:
        configure(bus, subscriber, "orders", ["shop"])
        before = [bus.admin.send("orders", b"{}").json()["id"] for _ in range(10)]
        bus.admin.wait_drained("orders", before, within=30)
        taken(tmp_path / "backup", bus.data)
        bus.admin.pause("orders", "shop", paused=True)
        after = [bus.admin.send("orders", b"{}").json()["id"] for _ in range(10)]
        assert run_bus("restore", tmp_path / "backup", "--data", bus.data, "--store-only").returncode == 1
        bus.kill()
        done = run_bus("restore", tmp_path / "backup", "--data", bus.data, "--store-only")
        assert "not an empty directory" in done.stderr
        shutil.rmtree(bus.data / "store")
        put_back(tmp_path / "backup", bus.data, "--store-only")
        bus.start()
        bus.admin.pause("orders", "shop", paused=False)
        wait_until(lambda: not missing(subscriber, ["shop"], after), within=30, what="what waited in the queues")
        assert not unfinished(bus, "orders", before)


def test_no_bus_starts_on_half_of_a_restore_and_errors_tell_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "data" / "store").mkdir(parents=True)
    done = run_bus("backup", tmp_path / "backup", "--data", tmp_path / "data")
    assert done.returncode == 1
    assert "--spools-only" in done.stderr
    done = run_bus("restore", tmp_path / "backup", "--data", tmp_path / "new")
    assert done.returncode == 1
    assert "no whole backup" in done.stderr
    (tmp_path / "new" / "processes").mkdir(parents=True)
    (tmp_path / "new" / "restoring.json").write_text('{"backup":"1"}')
    for command in ("up", "--port", "0"), ("key", "create"):
        done = run_bus(*command, "--data", tmp_path / "new")
        assert done.returncode == 1
        assert "bus restore" in done.stderr, done.stderr


@pytest.mark.proof
def test_roles_apart_are_backed_up_together(tmp_path: Path) -> None:
    folder = tmp_path / "buses"
    folder.mkdir()
    store = {"BUS_STORE": f"sqlite:///{folder}/store"}
    with SubscriberProcess(tmp_path, *PATHS) as subscriber:
        with Cluster(folder) as bus:
            configure(bus, subscriber, "orders", NAMES)
            with Load([each.url for each in bus.of("receiver")], "orders", rate=300) as load:
                time.sleep(8)
                known = list(load.acknowledged)
                said = taken(tmp_path / "backup", folder, env=store)
                time.sleep(1)
                bus.close()
        assert said["spools"] >= 4
        put_back(tmp_path / "backup", tmp_path / "new")
        with ExitStack() as running:
            env = {"BUS_STORE": f"sqlite:///{tmp_path}/new/store"}
            found = {path.name for path in (tmp_path / "new").iterdir() if path.name != "store"}
            assert {name.partition("-")[0] for name in found} == {"admin", "receiver", "dispatcher", "compensator"}
            buses = {
                name: running.enter_context(BusProcess(tmp_path / "new" / name, env=env, role=name.partition("-")[0]))
                for name in sorted(found)
            }
            judge(buses["admin-1"], subscriber, known, within=120)


@pytest.mark.proof
def test_several_processes_of_one_port_are_backed_up_together(tmp_path: Path) -> None:
    with SubscriberProcess(tmp_path, *PATHS) as subscriber:
        with ProcessGroup(tmp_path / "data", 2, log=tmp_path / "bus.log") as bus:
            configure(bus, subscriber, "orders", NAMES)
            with Load([bus.url], "orders", rate=300) as load:
                time.sleep(8)
                known = list(load.acknowledged)
                taken(tmp_path / "backup", bus.data)
                time.sleep(1)
                bus.close()
        put_back(tmp_path / "backup", tmp_path / "new")
        # One process goes on with the queues of both.
        with BusProcess(tmp_path / "new") as alone:
            judge(alone, subscriber, known, within=120)


def judge(bus: BusProcess, subscriber: SubscriberProcess, known: list[str], *, within: float) -> None:
    wait_until(lambda: not unfinished(bus, "orders", known), within=within, what="all known are delivered", every=0.5)
    lost = missing(subscriber, NAMES, known)
    delivered = [(call.id, call.path) for call in subscriber.calls() if 200 <= call.status < 300]
    note(Figures(messages=len(known), faults=1, duplicates=len(delivered) - len(set(delivered))))
    print({"known": len(known), "repeated": len(delivered) - len(set(delivered)), "lost": sum(map(len, lost.values()))})
    assert not lost
