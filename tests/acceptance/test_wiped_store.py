"""A store that was wiped while the bus was stopped costs no accepted message, until a person says that it was meant."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any

from bus.registry import SETTINGS, SUBSCRIPTIONS
from bus.stores.snapshot import read_kept
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

COUNT = 20
SENT = set(range(COUNT))


def accepted(bus: BusProcess, subscriber: SubscriberProcess, *lost: str) -> None:
    """Have messages wait in the direct queue, and start again without parts of the data directory."""
    configure(bus, subscriber, paused=True)
    for seq in SENT:
        bus.admin.send("orders", json.dumps({"seq": seq}).encode()).raise_for_status()
    wait_until(lambda: bus.admin.carried("direct") == COUNT, within=30, what="all in the direct queue")
    wait_until(lambda: {"orders/billing", "revision"} <= kept(bus), within=30, what="a snapshot of all that was put")
    bus.kill()
    for name in lost:
        shutil.rmtree(bus.data / name)
    bus.start()


def kept(bus: BusProcess) -> set[str]:
    """Return the keys of what the bus keeps on disk of its configuration, by which a wiped store is known too."""
    return {document.key for name in (SUBSCRIPTIONS, SETTINGS) for document in read_kept(bus.data, name) or ()}


def configure(bus: BusProcess, subscriber: SubscriberProcess, *, paused: bool) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "billing", subscriber.url("/billing"), paused=paused)


def troubles(bus: BusProcess) -> dict[str, str]:
    """Return what readiness says is wrong, by part."""
    return {
        check["name"]: check["detail"] for check in bus.admin.call("GET", "/readyz").json()["checks"] if not check["ok"]
    }


def got(subscriber: SubscriberProcess) -> set[int]:
    return {call.seq for call in subscriber.calls()}


def doctor(bus: BusProcess, *options: str) -> dict[str, Any]:
    """Return the checks of ``bus doctor`` that fail, by name."""
    run = run_bus("doctor", "--json", "--data", bus.data, "--url", bus.url, *options)
    return {check["name"]: check for check in json.loads(run.stdout)["checks"] if not check["ok"]}


def lanes(bus: BusProcess) -> Sequence[dict[str, Any]]:
    (found,) = json.loads(run_bus("spool", "ls", bus.data / "journal", "--json").stdout)["items"]
    return [waiting for waiting in found["consumers"] if waiting["lane"].startswith("direct:")]


def test_the_kept_configuration_delivers_and_a_person_is_told(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    accepted(bus, subscriber, "store")
    assert "--accept-empty-store" in troubles(bus)["configuration"]
    assert "configuration" in doctor(bus)
    bus.admin.pause("orders", "billing", paused=False)
    wait_until(lambda: got(subscriber) == SENT, within=30, what="all delivered")
    assert "configuration" not in doctor(bus, "--keep-configuration")
    assert troubles(bus) == {}


def test_without_any_configuration_the_queue_waits_to_be_resumed(
    bus: BusProcess, subscriber: SubscriberProcess
) -> None:
    accepted(bus, subscriber, "store", "configuration")
    assert "queue orders/billing" in troubles(bus)
    assert "queue orders/billing" in doctor(bus)
    wait_until(lambda: [lane["foreign"] for lane in lanes(bus)] == [True], within=30, what="listed as foreign")
    configure(bus, subscriber, paused=False)
    wait_until(lambda: got(subscriber) == SENT, within=30, what="all delivered")
    assert troubles(bus) == {}


def test_an_empty_store_that_was_meant_drops_what_waits(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    accepted(bus, subscriber, "store")
    assert "configuration" not in doctor(bus, "--accept-empty-store")
    wait_until(lambda: lanes(bus) == [], within=30, what="an empty queue")
    assert troubles(bus) == {}
    assert bus.admin.send("orders", b"{}").status_code == 404
    configure(bus, subscriber, paused=False)
    bus.admin.send("orders", json.dumps({"seq": COUNT}).encode()).raise_for_status()
    wait_until(lambda: got(subscriber) == {COUNT}, within=30, what="only what was sent since")
