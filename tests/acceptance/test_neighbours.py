"""The excess of one destination is refused to it alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from bus import Bus
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

SPOOL = 2**20
BODY = b'{"pad":"%s"}' % (b"x" * 20_000)
NEIGHBOUR = b'{"seq":%d}'
TRIES = 60


@pytest.fixture
def small(tmp_path: Path) -> Iterator[BusProcess]:
    """Run a bus whose spools hold no more than a megabyte each."""
    with BusProcess(tmp_path / "data", env={"BUS_SPOOL_LIMIT": str(SPOOL)}) as process:
        yield process


def fill(bus: BusProcess, code: str) -> httpx.Response:
    """Send to a destination until it is refused, and return that answer."""
    for _ in range(10 * SPOOL // len(BODY)):
        answer = bus.admin.send(code, BODY)
        if answer.status_code != httpx.codes.ACCEPTED:
            return answer
    raise AssertionError(f"{code} was never refused")


def neighbours(bus: BusProcess) -> list[int]:
    return [bus.admin.send("b", NEIGHBOUR % seq).status_code for seq in range(TRIES)]


def alarmed(bus: BusProcess) -> list[str]:
    alarms = bus.admin.call("GET", "/api/v1/overview").raise_for_status().json()["alarms"]
    return [alarm["destination"] for alarm in alarms if "refused for now" in alarm["what"]]


@pytest.mark.parametrize(
    ("fields", "paused"),
    [({"store_rate": 1}, False), ({"paused": True}, False), ({}, True)],
    ids=["slowly stored", "held", "its subscriptions paused"],
)
def test_a_full_destination_refuses_no_neighbour(
    small: BusProcess, subscriber: SubscriberProcess, fields: dict[str, object], paused: bool
) -> None:
    small.admin.destination("a", **fields)
    small.admin.subscription("a", "s", subscriber.url("/a"), paused=paused)
    small.admin.destination("b")
    small.admin.subscription("b", "s", subscriber.url("/b"))
    refused = fill(small, "a")
    met = set(itertools.chain([refused.status_code], neighbours(small)))
    assert met == {429, 202}, refused.text
    said = refused.json()
    assert said["field"] == "destination"
    assert "'a'" in said["detail"]
    assert int(refused.headers["retry-after"]) == said["retry_after"] > 0
    assert small.admin.metric('bus_messages_turned_away_total{destination="a",reason="spool_share"}') >= 1
    wait_until(lambda: "a" in alarmed(small), within=30, what="an alarm that names the destination")
    wait_until(
        lambda: {call.seq for call in subscriber.calls() if call.path == "/b"} >= {*range(TRIES)},
        within=60,
        what="all of the neighbour's messages",
    )


def test_a_rate_is_changed_live_and_keeps_no_neighbour_out(shared_bus: BusProcess) -> None:
    def setting(*options: str) -> None:
        ran = run_bus("destination", "set", "slow", *options, "--url", shared_bus.url)
        assert ran.returncode == 0, ran.stderr

    setting("--rate", "0.01", "--burst", "2")
    shared_bus.admin.destination("quick")
    assert [shared_bus.admin.send("slow", b"{}").status_code for _ in range(3)] == [202, 202, 429]
    refused = shared_bus.admin.send("slow", b"{}")
    assert refused.json()["field"] == "destination"
    assert int(refused.headers["retry-after"]) == refused.json()["retry_after"] > 1
    assert {shared_bus.admin.send("quick", b"{}").status_code for _ in range(20)} == {202}
    assert shared_bus.admin.metric('bus_messages_turned_away_total{destination="slow",reason="rate"}') == 2
    setting("--no-rate")
    assert {shared_bus.admin.send("slow", b"{}").status_code for _ in range(20)} == {202}


def test_a_key_over_its_rate_is_refused_and_the_other_is_not(bus: BusProcess) -> None:
    admin, slow, quick = (
        run_bus("key", "create", "--data", bus.data, *options).stdout.strip()
        for options in (("--role", "admin"), ("--rate", "0.01", "--burst", "1"), ())
    )
    wait_until(lambda: bus.admin.call("GET", "/api/v1/keys").status_code == 401, within=30, what="the keys")
    bus.admin.authorize(admin)
    bus.admin.destination("d")

    def sent(key: str) -> int:
        return bus.admin.send("d", b"{}", authorization=f"Bearer {key}").status_code

    wait_until(lambda: sent(quick) == 202, within=30, what="the bus knows the last key")
    assert [sent(slow), sent(slow), sent(quick), sent(quick)] == [202, 429, 202, 202]
    ran = run_bus("key", "set", slow.split("_")[1], "--no-rate", "--url", bus.url, "--api-key", admin)
    assert ran.returncode == 0, ran.stderr
    assert {sent(slow) for _ in range(5)} == {202}


def test_a_producer_waits_with_one_destination_and_goes_on_with_the_others(
    shared_bus: BusProcess, shared_subscriber: SubscriberProcess, tmp_path: Path
) -> None:
    shared_bus.admin.destination("limited", rate=20, burst=10)
    shared_bus.admin.destination("free")
    for code in ("limited", "free"):
        shared_bus.admin.subscription(code, "s", shared_subscriber.url(f"/{code}"))
    with Bus(shared_bus.url, spool=tmp_path / "spool", source="shop") as producer:
        for seq in range(30):
            producer.send("limited", {"seq": seq})
            producer.send("free", {"seq": seq})
        wait_until(lambda: seqs(shared_subscriber, "/free") == [*range(30)], within=60, what="the others' messages")
        assert producer.flush(60)
        assert producer.rejected == 0
    wait_until(lambda: seqs(shared_subscriber, "/limited") == [*range(30)], within=60, what="the limited messages")
    assert shared_bus.admin.metric('bus_messages_turned_away_total{destination="limited"') >= 1


def seqs(subscriber: SubscriberProcess, path: str) -> list[int]:
    return sorted({call.seq for call in subscriber.calls(path) if call.seq is not None})
