"""A bus whose clock is put ahead and back delivers what failed meanwhile after its own waits, not tomorrow."""

from __future__ import annotations

from pathlib import Path

from tests.harness.bus_process import BusProcess
from tests.harness.moved_clock import DAY, MovedClock
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

DESTINATION = "orders"
COUNT = 20


def test_what_failed_while_the_clock_was_a_day_ahead_is_delivered_when_it_is_back(tmp_path: Path) -> None:
    clock = MovedClock(tmp_path)
    with (
        SubscriberProcess(tmp_path, "/failing=fail:1", "/limiting=fail:1,status:429,retry_after:1") as subscriber,
        BusProcess(tmp_path / "data", env=clock.env) as bus,
    ):
        bus.admin.destination(DESTINATION)
        for name in ("failing", "limiting"):
            bus.admin.subscription(DESTINATION, name, subscriber.url(f"/{name}"), retry=["1s"])
        clock.put(DAY)
        sent = {bus.admin.send(DESTINATION, b"%d" % number).json()["id"] for number in range(COUNT)}
        wait_until(lambda: len(subscriber.calls()) >= 2 * COUNT, within=30, what="everything failed a day ahead")
        # Killed, it knows of nothing but what is on its disk.
        bus.kill()
        clock.put(0)
        bus.start()
        for name in ("failing", "limiting"):
            subscriber.configure(f"/{name}=")
        statuses = bus.admin.wait_drained(DESTINATION, sent, within=60)
    assert statuses == {"delivered": COUNT}
