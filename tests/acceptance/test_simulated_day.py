"""A day on which everything fails once: one notice for each cause, and none while all is well."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.harness.day import CHANNEL, GIB, HEARTBEAT, Day, Fault, Line, Load, running
from tests.harness.waiting import wait_until

NDJSON = {"content-type": "application/x-ndjson"}
GONE, DEAD = "subscriber-gone:direct/shop", "dead:direct/shop"
QUIET = 120.0
"""Seconds without a fault, at the beginning."""
HOUR = 3600.0


def faults(day: Day) -> list[Fault]:
    def server(name: str, number: int = 0) -> tuple:
        return day.parts[name].servers[number].kill, day.parts[name].servers[number].start

    def process(role: str) -> tuple:
        return day.process(role).kill, day.process(role).start

    admin = day.cluster.admin
    shop = f"host:127.0.0.1:{day.shop.port}"
    lane = "subscription:direct/shop"

    def shop_is(spec: str) -> object:
        return lambda: day.shop.configure(f"/shop={spec}")

    rabbitmq = day.parts["rabbitmq"].servers[0]
    certificate = f"certificate:127.0.0.1:{day.subscribers.secured_briefly.port}"

    def memory_is(watermark: str) -> object:
        return lambda: rabbitmq.eval(f"vm_memory_monitor:set_vm_memory_high_watermark({watermark})")

    def resume() -> None:
        day.shop.configure("/shop=fail:0")
        admin.pause("direct", "shop", paused=False)

    def unknown() -> None:
        line = b'{"destination":"nowhere","body":1}'
        answer = admin.call("POST", f"{day.cluster.url}/v1/messages", content=line, headers=NDJSON)
        assert answer.json()["results"][0]["status"] == "rejected"

    return [
        Fault("a subscriber's host is down", "breaker-open", shop, day.shop.stop, day.shop.start),
        Fault("a subscriber fails", "breaker-open", shop, shop_is("fail:1,status:500"), shop_is("fail:0")),
        Fault("a subscriber fails half the time", "errors", lane, shop_is("fail:0.7,status:500"), shop_is("fail:0")),
        Fault("a subscriber is slow", "saturated", lane, shop_is("delay:3"), shop_is("delay:0")),
        Fault("a subscriber is gone", "subscriber-gone", GONE, shop_is("fail:1,status:410"), resume),
        Fault("no dispatcher", "role-missing", "role:dispatcher", *process("dispatcher")),
        Fault("no receiver", "role-missing", "role:receiver", *process("receiver")),
        Fault("no compensator", "role-missing", "role:compensator", *process("compensator")),
        Fault("the store is away", "part-down", "part:store", *server("store")),
        Fault("Kafka is away", "part-down", "part:kafka", *server("kafka")),
        Fault("the primary RabbitMQ is away", "part-down", "part:rabbitmq-primary", *server("rabbitmq")),
        Fault(
            "the primary RabbitMQ has no memory", "broker-memory", "part:rabbitmq-primary",
            memory_is("{absolute, 1000000}"), memory_is("0.4"),
        ),
        Fault("an nsqd is away", "part-down", f"part:nsqd {day.nsqd}", *server("nsq")),
        Fault(
            "a destination's rate is too low", "turned-away", "destination:direct",
            lambda: admin.destination("direct", transport="direct", rate=1.0),
            lambda: admin.destination("direct", transport="direct"),
        ),
        Fault("a disk is nearly full", "disk", "disk:", lambda: day.disk.fill(leave=GIB // 8), day.disk.empty),
        Fault(
            "a certificate ends soon", "certificate", certificate,
            lambda: day.call_by_https(day.subscribers.secured_briefly),
            lambda: day.call_by_https(day.subscribers.secured),
        ),
        Fault("messages to nowhere", "rejected", "rejected:", unknown, lambda: None, clears=False),
        Fault("deliveries die", "dead", DEAD, shop_is("fail:0.3,status:422"), shop_is("fail:0"), clears=False),
    ]  # fmt: skip


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_each_fault_is_told_once_and_a_quiet_time_is_quiet(tmp_path: Path) -> None:
    with running(tmp_path) as day, Load(day.cluster.url):
        time.sleep(QUIET)
        assert day.titles() == []
        beats = len(day.channels.titles(HEARTBEAT))
        assert beats >= QUIET / 4
        print("| fault | told | after | over after |\n|---|---|---|---|")
        lines = []
        for fault in faults(day):
            lines.append(day.try_fault(fault))
            print(row(lines[-1]), flush=True)
        silence(day)
    assert [complaint for line in lines if (complaint := complaint_of(line))] == []


@pytest.mark.proof
@pytest.mark.timeout(5400)
def test_an_hour_without_a_fault_is_quiet(tmp_path: Path) -> None:
    with running(tmp_path) as day, Load(day.cluster.url) as load:
        end = time.monotonic() + HOUR
        while time.monotonic() < end and not day.titles():
            time.sleep(1)
        assert day.titles() == []
        assert day.incidents() == {}
        assert len(day.channels.titles(HEARTBEAT)) >= HOUR / 4
        print(f"{load.accepted:,} messages in an hour, and nobody was told of anything")


def silence(day: Day) -> None:
    """The process that tells is killed: its heartbeat falls silent, and comes back with it."""
    process = day.process("alarms")
    process.kill()
    before = len(day.channels.titles(HEARTBEAT))
    time.sleep(10)
    assert len(day.channels.titles(HEARTBEAT)) == before
    told = day.channels.titles(CHANNEL)
    process.start()
    wait_until(lambda: len(day.channels.titles(HEARTBEAT)) > before, within=120, what="it is heard again")
    assert day.channels.titles(CHANNEL) == told


def complaint_of(line: Line) -> str:
    # An incident that becomes worse is told again.
    opened = [title for title in line.told if "over after" not in title and not title.startswith("Pier worse")]
    over = [title for title in line.told if "over after" in title]
    if len(opened) != 1:
        return f"{line.fault.name}: told {len(opened)} times: {opened}"
    if line.fault.clears and len(over) != 1:
        return f"{line.fault.name}: over {len(over)} times: {over}"
    if len(line.causes) != 1 or not line.causes[0].startswith(line.fault.cause):
        return f"{line.fault.name}: from {line.causes}"
    return "" if line.fault.rule in line.rules else f"{line.fault.name}: by {sorted(line.rules)}"


def row(line: Line) -> str:
    over = f"{line.cleared_after:.0f} s" if line.cleared_after is not None else "-"
    told = " / ".join(title for title in line.told if "over after" not in title)
    return f"| {line.fault.name} | {told} | {line.raised_after:.0f} s | {over} |"
