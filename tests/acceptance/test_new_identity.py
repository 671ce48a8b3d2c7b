"""A process that comes back under another name, at its old URL and to the same store, delivers what waits."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until


def torn(names: list[Path]) -> None:
    """As a power cut leaves files that were never synced."""
    for name in names:
        name.write_bytes(b"")


def gone(names: list[Path]) -> None:
    """As a new volume with the old store has it."""
    for name in names:
        shutil.rmtree(name.parent)


@pytest.mark.parametrize("harm", [torn, gone])
def test_a_new_name_at_the_old_url_gets_all_permits(
    bus: BusProcess, subscriber: SubscriberProcess, harm: Callable[[list[Path]], None]
) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "billing", subscriber.url("/billing"), paused=True)
    bus.admin.send("orders", b'{"seq":1}').raise_for_status()
    bus.kill()
    names = list((bus.data / "processes").glob("*/name"))
    assert names
    harm(names)
    bus.start()
    bus.admin.pause("orders", "billing", paused=False)
    bus.admin.send("orders", b'{"seq":2}').raise_for_status()
    wait_until(lambda: {call.seq for call in subscriber.calls()} == {1, 2}, within=30, what="both messages")
