"""Processes of two versions at once: replaced one by one under load, forth and back, with nothing lost."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness.backups import Load, missing, unfinished
from tests.harness.bus_process import BusProcess
from tests.harness.cluster import Cluster
from tests.harness.other_version import FIELD, VERSION, install
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.proofs.figures import Figures, note

STEADY = ("fast", "slow")
# A retry that was leased when its process was stopped waits until the lease ends, a minute later.
NAMES = (*STEADY, "flaky")
PATHS = ("/slow=delay:0.03", "/flaky=fail:0.3")
SMALL = ("admin", "receiver", "dispatcher", "dispatcher", "compensator")
WHOLE = ("admin", "receiver", "receiver", "dispatcher", "dispatcher", "compensator", "compensator")


def replaced(bus: Cluster, process: BusProcess, env: Mapping[str, str]) -> BusProcess:
    """Stop a process in order, and start another version in its place."""
    assert process.stop() == 0, process.child.output()
    process.close()
    successor = BusProcess(
        process.data,
        port=process.port,
        role=process.role,
        log=process.data.with_name(f"{process.data.name}.log"),
        env={"BUS_STORE": f"sqlite:///{process.data.parent}/store", **env},
    )
    bus.processes[bus.processes.index(process)] = successor.start()
    if successor.role == "admin":
        bus.admin = successor.admin
    return successor


def versions(bus: Cluster) -> dict[str, str]:
    items = bus.admin.call("GET", "/api/v1/processes").raise_for_status().json()["items"]
    return {item["url"]: item["version"] for item in items}


def roll(bus: Cluster, chosen: Sequence[BusProcess], env: Mapping[str, str], wanted: str) -> None:
    """Replace processes one after the other, each once the others see the one before."""
    for process in chosen:
        url = replaced(bus, process, env).url
        wait_until(lambda url=url: versions(bus).get(url) == wanted, within=20, what=f"{url} has {wanted}")


def prove(
    folder: Path, roles: Sequence[str], replace: Sequence[str], names: Sequence[str], *, rate: float, back: bool
) -> None:
    later = install(folder / "later")
    with SubscriberProcess(folder, *PATHS) as subscriber, Cluster(folder, roles) as bus:
        configure(bus, subscriber, names)
        present = next(iter(versions(bus).values()))
        with (
            Load([each.url for each in bus.of("receiver")], "orders", rate=rate) as load,
            Load([bus.of("receiver")[0].url], "keys", rate=rate / 4, key="k") as keyed,
        ):
            time.sleep(1)
            roll(bus, [each for role in replace for each in bus.of(role)], later, VERSION)
            assert set(versions(bus).values()) == ({present, VERSION} if set(roles) - set(replace) else {VERSION})
            change_with(bus, subscriber)
            if back:
                roll(bus, [each for role in replace for each in bus.of(role)], {}, present)
            time.sleep(1)
        judge(bus, subscriber, names, {"orders": load.acknowledged, "keys": keyed.acknowledged})


def configure(bus: Cluster, subscriber: SubscriberProcess, names: Sequence[str]) -> None:
    for code, ordering in (("orders", "none"), ("keys", "key")):
        bus.admin.destination(code, ordering=ordering)
    for name in names:
        bus.admin.subscription("orders", name, subscriber.url(f"/{name}"), retry=["300ms", "1s"], stuck_after="5s")
    bus.admin.subscription("keys", "ledger", subscriber.url("/ledger"), retry=["300ms"])


def change_with(bus: Cluster, subscriber: SubscriberProcess) -> None:
    """Change the configuration while both versions have it in force."""
    bus.admin.subscription("orders", "fast", subscriber.url("/fast"), retry=["200ms"], stuck_after="5s")


def judge(bus: Cluster, subscriber: SubscriberProcess, names: Sequence[str], sent: Mapping[str, Sequence[str]]) -> None:
    for code, ids in sent.items():
        wait_until(lambda code=code, ids=ids: not unfinished(bus, code, ids), within=150, what=f"all of {code}")
    lost = {**missing(subscriber, names, sent["orders"]), **missing(subscriber, ["ledger"], sent["keys"])}
    calls = [call for call in subscriber.calls() if 200 <= call.status < 300]
    found = Counter((call.path, call.id) for call in calls)
    repeated = found.total() - len(found)
    order = [call.seq for call in calls if call.path == "/ledger"]
    figures = {"sent": sum(map(len, sent.values())), "lost": sum(map(len, lost.values())), "repeated": repeated}
    note(Figures(messages=figures["sent"], faults=len(bus.processes), lost=figures["lost"], duplicates=repeated))
    print(json.dumps(figures))
    assert not lost
    assert order == sorted(order)
    # A retry may be made by two where the store is slow to say that it is under way.
    assert not [path for (path, _), count in found.items() if count > 1 and path != "/flaky"]


def test_dispatchers_and_receivers_are_replaced_one_by_one(tmp_path: Path) -> None:
    prove(tmp_path, SMALL, ("receiver", "dispatcher"), STEADY, rate=80, back=False)


@pytest.mark.proof
@pytest.mark.timeout(600)
def test_every_process_is_replaced_and_back_again(tmp_path: Path) -> None:
    prove(tmp_path, WHOLE, ("admin", "compensator", "dispatcher", "receiver"), NAMES, rate=200, back=True)


def test_the_other_version_writes_a_field_more(tmp_path: Path) -> None:
    install(tmp_path / "later")
    found: dict[str, Any] = {}
    exec((tmp_path / "later/bus/cluster/member.py").read_text(), found)
    assert FIELD in found["Member"].__struct_fields__
