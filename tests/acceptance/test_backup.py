"""A backup of a running bus, and what a bus out of it delivers: everything that was acknowledged before it began."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bus.backups import take
from bus.clock import SystemClock
from bus.settings import load_settings
from tests.harness.backups import Load, configure, missing, put_back, taken, unfinished
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.proofs.figures import Figures, note

NAMES = ("fast", "slow", "flaky")
PATHS = ("/slow=delay:0.05", "/flaky=fail:0.3")
Take = Callable[[Path, Path], dict[str, Any]]


def prove(folder: Path, backup: Take, *, rate: float, before: float, after: float, within: float) -> None:
    """Back a bus up under load, kill it, and compare what a bus out of the backup has and delivers."""
    with SubscriberProcess(folder, *PATHS) as subscriber:
        with BusProcess(folder / "data") as bus:
            configure(bus, subscriber, "orders", NAMES)
            # Slower into the store than they come, so that messages leave the queues for it all the time.
            _store_at(bus, rate * 0.7, rate * 2)
            later = bus.admin.send("orders", b"{}", bus_deliver_at=_at(before + after + 2)).json()["id"]
            with Load([bus.url], "orders", rate=rate) as load:
                time.sleep(before)
                known = [*load.acknowledged, later]
                said = backup(folder / "backup", bus.data)
                time.sleep(after)
                bus.kill()
        assert put_back(folder / "backup", folder / "new")["backup"] == said["backup"]
        with BusProcess(folder / "new") as bus:
            _store_at(bus, None, None)
            # What was accepted while it was copied may be there, too, and goes out when it is found as stuck.
            wait_until(lambda: not unfinished(bus, "orders", known), within=within, what="all known are delivered")
            assert not missing(subscriber, NAMES, known)
        delivered = [(call.id, call.path) for call in subscriber.calls() if 200 <= call.status < 300]
    repeated = len(delivered) - len(set(delivered))
    note(Figures(messages=len(known), faults=1, duplicates=repeated))
    print({"known": len(known), "acknowledged": len(load.acknowledged), "repeated": repeated, **said})


def slowly(directory: Path, data: Path) -> dict[str, Any]:
    """Take a backup of which each kind of file takes over half a second."""

    def begin(_what: str, _size: int) -> Callable[[int], None]:
        time.sleep(0.6)
        return lambda _: None

    done = take(load_settings(None, {"data": data}), directory, SystemClock(), begin)
    return {"backup": done.manifest.id}


def _store_at(bus: BusProcess, receiver: float | None, dispatcher: float | None) -> None:
    rates = {"receiver": receiver, "dispatcher": dispatcher}
    bus.admin.call("PUT", "/api/v1/rates", json=rates).raise_for_status()


def _at(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def test_what_was_acknowledged_before_a_backup_is_delivered_by_a_bus_out_of_it(tmp_path: Path) -> None:
    prove(tmp_path, slowly, rate=100, before=1.5, after=0.2, within=30)


@pytest.mark.proof
@pytest.mark.parametrize("n", range(5))
def test_nothing_is_lost_over_backups_under_heavy_load(tmp_path: Path, n: int) -> None:
    prove(tmp_path, taken, rate=400, before=4 + 3 * n, after=2, within=240)
