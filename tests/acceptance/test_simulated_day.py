"""A day on which everything fails once: one notice for each cause, and none while all is well."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.harness.day import CHANNEL, HEARTBEAT, Day, Fault, Line, Load, running
from tests.harness.waiting import wait_until

NDJSON = {"content-type": "application/x-ndjson"}
GONE, DEAD = "subscriber-gone:direct/shop", "dead:direct/shop"
QUIET = 120.0
"""Seconds without a fault, at the beginning."""


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
        Fault("an nsqd is away", "part-down", f"part:nsqd {day.nsqd}", *server("nsq")),
        Fault(
            "a destination's rate is too low", "turned-away", "destination:direct",
            lambda: admin.destination("direct", transport="direct", rate=1.0),
            lambda: admin.destination("direct", transport="direct"),
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


def silence(day: Day) -> None:
    """The process that tells is killed: its heartbeat falls silent, and comes back with it."""
    process = day.process("alarms")
    process.kill()
    before = len(day.channels.titles(HEARTBEAT))
    time.sleep(10)
    assert len(day.channels.titles(HEARTBEAT)) == before
    told = day.channels.titles(CHANNEL)
    process.start()
    wait_until(lambda: len(day.channels.titles(HEARTBEAT)) > before, within=60, what="it is heard again")
    assert day.channels.titles(CHANNEL) == told


def complaint_of(line: Line) -> str:
    opened = [title for title in line.told if "over after" not in title]
    over = [title for title in line.told if "over after" in title]
    if len(opened) != 1:
        return f"{line.fault.name}: told {len(opened)} times: {opened}"
    if line.fault.clears and len(over) != 1:
        return f"{line.fault.name}: over {len(over)} times: {over}"
    return "" if line.causes == [line.fault.cause] else f"{line.fault.name}: from {line.causes}"


def row(line: Line) -> str:
    over = f"{line.cleared_after:.0f} s" if line.cleared_after is not None else "-"
    told = " / ".join(title for title in line.told if "over after" not in title)
    return f"| {line.fault.name} | {told} | {line.raised_after:.0f} s | {over} |"
