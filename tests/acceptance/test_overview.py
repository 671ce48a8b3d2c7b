"""Each role a process of its own: the admin says how all of them are, and has a dispatcher send a sample."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from tests.harness.bus_process import run_bus
from tests.harness.cluster import Cluster
from tests.harness.process import free_port
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

ROLES = ("admin", "receiver", "dispatcher", "compensator", "sweeper")
BILLING = "/api/v1/destinations/orders/subscriptions/billing"


def get(bus: Cluster, path: str, **query: Any) -> Any:
    answer = bus.admin.call("GET", f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _processes(bus: Cluster) -> dict[str, dict[str, Any]]:
    return {item["roles"][0]: item for item in get(bus, "processes")["items"]}


def test_what_an_operator_sees_of_a_bus_in_several_processes(tmp_path: Path) -> None:
    env = {"BUS_SWEEP": str(tmp_path), "BUS_SWEEP_IDLE": "3600"}
    with SubscriberProcess(tmp_path) as subscriber, Cluster(tmp_path, ROLES, env=env) as bus:
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "billing", subscriber.url("/billing"), secret="auto")

        wait_until(lambda: len(_processes(bus)) == len(ROLES), within=30, what="all processes are known")
        found = _processes(bus)
        assert len({item["node"] for item in found.values()}) == len(ROLES)
        assert all(item["answers"] for item in found.values()), found
        assert found["dispatcher"]["permits"] == {"in_use": 0, "share": 16, "subscriptions": 1}
        assert {spool["name"] for spool in found["receiver"]["spools"]} == {"receiver"}
        wait_until(lambda: all(item["is_current"] for item in _processes(bus).values()), within=10, what="all agree")
        assert [one["directories"] for one in get(bus, "orphans")["watched"]] == [[str(tmp_path)]]

        answer = bus.admin.call("POST", f"{BILLING}/sample", json={"body": {"order": 42}})
        assert answer.status_code == 200, answer.text
        sampled = answer.json()
        (call,) = subscriber.calls("/billing")
        assert (call.id, sampled["delivered"]) == (sampled["id"], True)
        assert sampled["node"] == found["dispatcher"]["node"]
        shown = {name.lower(): value for name, value in sampled["request"]["headers"]}
        assert shown["bus-sample"] == "true"
        assert shown["webhook-signature"].startswith("v1,")

        receiver = bus.of("receiver")[0]
        for number in range(50):
            assert receiver.admin.send("orders", b'{"n":%d}' % number).status_code == 202
        wait_until(lambda: get(bus, "overview")["now"]["delivered_per_second"] > 0, within=20, what="rates are told")

        bus.admin.subscription("orders", "gone", f"http://127.0.0.1:{free_port()}/", retry=["1s"])
        for number in range(20):
            assert receiver.admin.send("orders", b'{"n":%d}' % number).status_code == 202
        wait_until(
            lambda: "gone" in {one["subscription"] for one in get(bus, "overview")["breakers"]},
            within=20,
            what="the open breaker of the dispatcher is told by the admin",
        )
        alarms = get(bus, "overview")["alarms"]
        assert any(alarm["link"] == "destinations/orders/subscriptions/gone" for alarm in alarms), alarms
        transports = get(bus, "destinations/orders/transports")
        assert transports["items"][0]["subscriptions"][0]["waiting"] is not None
        assert transports["complete"] is True

        receiver.child.signal(signal.SIGSTOP)
        try:
            mute = _processes(bus)["receiver"]
            assert (mute["answers"], bool(mute["trouble"])) == (False, True)
            assert mute["spools"]
        finally:
            receiver.child.signal(signal.SIGCONT)
        wait_until(lambda: _processes(bus).get("receiver", {}).get("answers"), within=30, what="it answers again")

        ran = run_bus("status", "--url", bus.of("admin")[0].url, "--json")
        assert len(json.loads(ran.stdout)["processes"]["items"]) == len(ROLES), ran.stderr
        assert bus.of("dispatcher")[0].stop() == 0
        wait_until(
            lambda: any("no dispatcher is alive" in alarm["what"] for alarm in get(bus, "overview")["alarms"]),
            within=20,
            what="that nobody delivers is an alarm",
        )
        refused = bus.admin.call("POST", f"{BILLING}/sample", json={"body": 1})
        assert (refused.status_code, "nothing was sent" in refused.json()["detail"]) == (503, True)
        assert bus.admin.call("GET", f"{BILLING}/actions").json()["sample"]["allowed"] is False
        assert run_bus("status", "--url", bus.of("admin")[0].url).returncode == 1
