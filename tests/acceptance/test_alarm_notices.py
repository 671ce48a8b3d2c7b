"""People are told of what needs them, once for each cause, by roads that the bus's own troubles do not block."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.harness.alarm_channels import AlarmChannels
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

RULES = """
[alarm_rules.breaker-open]
hold = "0s"
clear = "0s"
[alarm_rules.backlog]
limit = 5
hold = "0s"
clear = "0s"
[alarm_rules.errors]
off = true
"""
NOBODY = "http://127.0.0.1:9/x"
WITHIN = 30.0


class World(NamedTuple):
    bus: BusProcess
    channels: AlarmChannels
    subscriber: SubscriberProcess

    def cli(self, *arguments: str) -> str:
        ran = run_bus(*arguments, env={"BUS_URL": self.bus.url})
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def wait_told(self, channel: str, count: int) -> list[str]:
        wait_until(
            lambda: len(self.channels.titles(channel)) >= count,
            within=WITHIN,
            what=f"{channel} is told {count} times",
            state=lambda: self.channels.told,
        )
        return self.channels.titles(channel)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with AlarmChannels() as channels, SubscriberProcess(tmp_path) as subscriber:
        config = tmp_path / "bus.toml"
        config.write_text(
            channels.config("ops")
            + channels.config("boss", severity="critical")
            + channels.config("alive", heartbeat="1s")
            + RULES
        )
        with BusProcess(tmp_path / "data", config=config) as bus:
            yield World(bus, channels, subscriber)


def fail(bus: BusProcess) -> None:
    """Have two subscriptions on one host that nobody answers at get messages."""
    bus.admin.destination("orders")
    for name in ("shop", "mail"):
        bus.admin.subscription("orders", name, NOBODY)
    for number in range(30):
        assert bus.admin.send("orders", b'{"n":%d}' % number).status_code == 202


def test_one_cause_is_told_once_over_a_kill(world: World) -> None:
    bus, channels = world.bus, world.channels
    channels.deaf = {"ops"}
    fail(bus)

    def owed() -> list[dict]:
        items = bus.admin.call("GET", "/api/v1/alarms").json()["items"]
        return [one for one in items if any(told["channel"] == "ops" for told in one["told"])]

    (incident,) = wait_until(owed, within=WITHIN, what="the channel is owed a notice")
    assert incident["cause"] == "host:127.0.0.1:9"
    bus.kill()
    channels.deaf = set()
    bus.start()
    (first,) = world.wait_told("ops", 1)
    assert first.startswith("Pier warning: the subscriber")
    assert "Pier watches" in channels.titles("alive")


def test_what_is_over_is_told_once(world: World) -> None:
    bus, channels = world.bus, world.channels
    fail(bus)
    (first,) = world.wait_told("ops", 1)
    assert first.startswith("Pier warning: the subscriber")
    for name in ("shop", "mail"):
        bus.admin.subscription("orders", name, world.subscriber.url(f"/{name}"))
    last = world.wait_told("ops", 2)[-1]
    assert last.startswith("Pier over after")
    assert len(channels.titles("ops")) == 2
    assert channels.titles("boss") == []
    assert "closed\twarning" in world.cli("alarms", "list", "--closed")


def test_channels_are_tried_and_what_is_silenced_is_shown_and_not_told(world: World) -> None:
    world.channels.deaf = {"boss"}
    ran = run_bus("alarms", "test", env={"BUS_URL": world.bus.url})
    assert (ran.returncode, "ops\tsent" in ran.stdout, "boss\tits service did not take it" in ran.stdout) == (
        1,
        True,
        True,
    )
    world.cli("alarms", "silence", "--destination", "orders", "--for", "1h")
    world.bus.admin.destination("orders")
    world.bus.admin.subscription("orders", "shop", NOBODY)
    for number in range(10):
        world.bus.admin.send("orders", b'{"n":%d}' % number)
    wait_until(lambda: "silenced" in world.cli("alarms", "list"), within=WITHIN, what="the incident is shown")
    (silence,) = world.bus.admin.call("GET", "/api/v1/alarm-silences").json()["items"]
    assert [title for title in world.channels.titles("ops") if "tries" not in title] == []
    world.cli("alarms", "unsilence", silence["id"])
    assert world.wait_told("ops", 2)[-1].startswith("Pier warning")


def test_a_channel_that_cannot_be_used_stops_the_start(tmp_path: Path) -> None:
    config = tmp_path / "bus.toml"
    config.write_text('[alarm_channels.ops]\nurl = "nonsense://x"\n')
    ran = run_bus("up", "--data", tmp_path / "data", "--config", config, "--port", "0")
    assert ran.returncode == 1
    assert "alarm_channels.ops" in ran.stderr
    assert "docs/alarms.md" in ran.stderr


def test_what_happens_to_the_bus_comes_as_messages_of_its_own(world: World) -> None:
    bus, subscriber = world.bus, world.subscriber
    bus.admin.destination("bus.events")
    bus.admin.subscription("bus.events", "tickets", subscriber.url("/tickets"))
    bus.admin.destination("orders")
    subscriber.configure("/refuses=fail:1,status:422")
    bus.admin.subscription("orders", "shop", subscriber.url("/refuses"), dead_on=[422])
    sent = bus.admin.send("orders", b"{}").json()["id"]

    def told(type_: str) -> list[str]:
        return [call.biz_id for call in subscriber.calls("/tickets") if call.biz_id.startswith(f"{type_}:")]

    (dead,) = wait_until(lambda: told("delivery.dead"), within=WITHIN, what="the death is told")
    assert sent in dead
    wait_until(lambda: told("alarm.opened"), within=WITHIN, what="the alarm is told")
    bus.admin.pause("orders", "shop", paused=True)
    wait_until(lambda: told("subscription.paused"), within=WITHIN, what="the pause is told")
