"""A sweeper and the processes whose queues it takes over do not see each other: only their disk is the same."""

from __future__ import annotations

import os
from pathlib import Path

from tests.harness.bus_process import BusProcess
from tests.harness.history import read_history
from tests.harness.process import Child, free_port, module
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import missing

# As containers have them: two processes with the same id, and with networks that do not meet.
APART = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
SWEEPING = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
COUNT = 50


def producer(folder: Path, spool: Path, name: str) -> Child:
    """Return a producer in namespaces of its own, whose network has no receiver."""
    told = {"--url": f"http://127.0.0.1:{free_port()}", "--spool": spool, "--history": folder / f"{name}.jsonl"}
    given = {**told, "--destination": "orders", "--process": name, "--count": COUNT}
    words = [word for pair in given.items() for word in pair]
    return Child([*APART, *module("tests.harness.producer", *words)], log=folder / f"{name}.log")


def test_producers_that_never_reached_the_bus_are_swept(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        missing("only root makes namespaces")
    spool, env = tmp_path / "producers", {"BUS_STORE": f"sqlite:///{tmp_path}/store"}
    producers = [producer(tmp_path, spool, name) for name in ("one", "two")]
    for each in producers:
        each.start()
    for each in producers:
        each.ready_line()
        each.kill()
    assert len(list(spool.glob("*.sdk"))) == 2
    sweep = {"BUS_SWEEP": str(spool), "BUS_SWEEP_IDLE": "0.5"}
    with (
        SubscriberProcess(tmp_path) as subscriber,
        BusProcess(tmp_path / "bus", env=env) as bus,
    ):
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
        with BusProcess(tmp_path / "sweeper", role="sweeper", env=env | sweep, under=SWEEPING):
            wait_until(lambda: not list(spool.glob("*.sdk")), within=40, what="no queue is left")
            wait_until(lambda: subscriber.count("/shop") >= 2 * COUNT, within=30, what="all arrive")
        sent = {event.id for each in ("one", "two") for event in read_history(tmp_path / f"{each}.jsonl") if event.id}
        assert {call.id for call in subscriber.calls("/shop")} == sent
        assert len(sent) == 2 * COUNT
