"""A bus on a cluster of the NSQ fork: keys in order over partitions, traced, and found by the trace id."""

from __future__ import annotations

import json
from pathlib import Path

from bus.domain.identity import trace_number
from tests.doubles.youzan.running import YouzanDouble
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

CODE = "account.changed"
KEYS = 10
COUNT = 100


def test_keys_arrive_in_order_and_each_trace_says_where_its_message_was(tmp_path: Path) -> None:
    with YouzanDouble(tmp_path) as double, SubscriberProcess(tmp_path) as subscriber:
        env = {"BUS_NSQ_LOOKUPD": double.lookups[0], "BUS_NSQ_PARTITIONS": "4", "BUS_NSQ_REPLICATION": "2"}
        with BusProcess(tmp_path / "data", env=env) as bus:
            fields = {"transport": "nsq", "ordering": "key", "traced": True}
            # It is refused (422) until an nsqlookupd has told that there are partitions.
            path = f"/api/v1/destinations/{CODE}"
            wait_until(
                lambda: bus.admin.call("PUT", path, json={"code": CODE, **fields}).is_success,
                within=10,
                what="the cluster is known to have partitions",
            )
            bus.admin.subscription(CODE, "ledger", subscriber.url("/hook"))
            sent = [_send(bus, number) for number in range(COUNT)]
            wait_until(lambda: len(subscriber.calls()) >= COUNT, within=20, what="all are delivered")
            numbers = [sent.index(call.id) for call in subscriber.calls()]
            for key in range(KEYS):
                assert [n for n in numbers if n % KEYS == key] == list(range(key, COUNT, KEYS))
            told = wait_until(lambda: _road(bus, sent[0]), within=10, what="the trace is there")
            partition = next(one for one in double.partitions(CODE) if f"partition {one['partition']}:" in told)
            nsqd = double.nsqds[partition["nsqds"][0]]
            assert f"from 127.0.0.1:{nsqd.tcp}, " in told
            assert f"trace id {trace_number(sent[0])}, " in told
            found = bus.admin.call("GET", "/api/v1/messages", params={"ref": str(trace_number(sent[0]))}).json()
            assert [one["id"] for one in found["items"]] == [sent[0]]


def test_what_a_leader_lost_that_was_behind_is_delivered_from_the_store(tmp_path: Path) -> None:
    with YouzanDouble(tmp_path) as double, SubscriberProcess(tmp_path) as subscriber:
        env = {"BUS_NSQ_LOOKUPD": double.lookups[0], "BUS_NSQ_PARTITIONS": "2", "BUS_NSQ_REPLICATION": "2"}
        with BusProcess(tmp_path / "data", env=env) as bus:
            path = f"/api/v1/destinations/{CODE}"
            assert bus.admin.call("PUT", path, json={"code": CODE, "transport": "nsq"}).is_success
            bus.admin.subscription(CODE, "ledger", subscriber.url("/hook"), stuck_after="2s")
            before = {_send(bus, number) for number in range(20)}
            wait_until(lambda: {one.id for one in subscriber.calls()} == before, within=20, what="all are delivered")
            bus.admin.pause(CODE, "ledger", paused=True)
            held = {_send(bus, number) for number in range(20, 60)}
            wait_until(lambda: _written(double) == 60, within=10, what="all are in partitions")
            for partition in (0, 1):
                leader = double.leader(CODE, partition)
                double.move_leader_behind(CODE, partition, 3 - leader, lost=10)
            bus.admin.pause(CODE, "ledger", paused=False)
            wait_until(
                lambda: {one.id for one in subscriber.calls()} == before | held,
                within=40,
                what="what was lost is delivered too",
                state=lambda: (len(subscriber.calls()), double.partitions(CODE)),
            )


def _written(double: YouzanDouble) -> int:
    return sum(one["messages"] for one in double.partitions(CODE))


def _send(bus: BusProcess, number: int) -> str:
    answer = bus.admin.send(CODE, json.dumps({"n": number}).encode(), bus_key=f"account-{number % KEYS}")
    identifier: str = answer.raise_for_status().json()["id"]
    return identifier


def _road(bus: BusProcess, message_id: str) -> str:
    """Return what the trace tells of the receipt by a dispatcher; empty while it does not."""
    answer = bus.admin.call("GET", f"/api/v1/messages/{message_id}")
    hops = answer.json()["hops"] if answer.is_success else []
    return next((hop["what"] for hop in hops if "taken over by a dispatcher from" in hop["what"]), "")
