"""A group of brokers that comes back with empty disks: what is missing is reported, and resent in its order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from bus.transports.rabbitmq.names import Lane
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.group_parts import GROUPS, NAMES, GroupPart
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

CODE: Final = "ledger"
READ, AHEAD, LOST, AFTER = 10, 5, 40, 20
SENT: Final = list(range(READ + LOST + AFTER))


@pytest.fixture
def part(transport: str, tmp_path: Path) -> Iterator[GroupPart]:
    """Run two groups, one of which loses its disks."""
    with GROUPS[transport](tmp_path / "groups", [Lane(CODE, "billing")]) as part:
        yield part


def send(bus: BusProcess, numbers: Sequence[int]) -> None:
    """Have messages accepted one after another, each sent again until it is."""
    for seq in numbers:
        body = json.dumps({"seq": seq}).encode().replace(b'"seq": ', b'"seq":').replace(b"}", b',"more":0}')
        wait_until(
            lambda body=body: bus.admin.send(CODE, body, idempotency_key=f"key-{seq}").is_success,  # noqa: B023
            within=60,
            what=f"message {seq} is accepted",
        )


def got(subscriber: SubscriberProcess) -> list[int]:
    return [call.seq for call in subscriber.calls() if call.seq is not None]


def blocked(bus: BusProcess) -> list[str]:
    return [one["what"] for one in bus.admin.ordering(CODE)["blocked"]]


def repaired(bus: BusProcess) -> dict[str, Any]:
    """Resend the pending messages; return how many items ended how."""
    filtered = ("--destination", CODE, "--status", "pending", "--from", "1h", "--to", "0s", "--reorder", "--json")
    run = run_bus("resend", *filtered, "--url", bus.url, within=120)
    assert run.stdout, run.stderr
    return dict(json.loads(run.stdout)["counts"])


def checks(bus: BusProcess) -> str:
    return " ".join(check["detail"] for check in bus.admin.call("GET", "/readyz").json()["checks"] if not check["ok"])


def lose(bus: BusProcess, part: GroupPart) -> str:
    """Have the group that takes messages lose its disks while messages wait there and others go to the next one."""
    name = bus.admin.ordering(CODE)["send"][0]
    group = part.groups[NAMES.index(name)]
    bus.admin.pause(CODE, "billing", paused=True)
    send(bus, SENT[READ : READ + LOST])
    group.lose_disks()
    send(bus, SENT[READ + LOST :])
    group.mend()
    bus.admin.pause(CODE, "billing", paused=False)
    return name


@pytest.mark.timeout(240)
@pytest.mark.parametrize("transport", ["kafka", pytest.param("rabbitmq", marks=pytest.mark.proof)])
@pytest.mark.parametrize("_run", [0, *(pytest.param(run, marks=pytest.mark.proof) for run in range(1, 11))])
def test_what_a_group_lost_is_told_and_resent_in_order(
    tmp_path: Path, transport: str, part: GroupPart, _run: int
) -> None:
    with (
        SubscriberProcess(tmp_path, fsync=False) as subscriber,
        BusProcess(tmp_path / "bus", env=part.env) as bus,
    ):
        bus.admin.destination(CODE, transport=transport, ordering="strict")
        bus.admin.subscription(CODE, "billing", subscriber.url("/billing"))
        send(bus, SENT[:READ])
        wait_until(lambda: got(subscriber) == SENT[:READ], within=30, what="all is delivered that was read")
        name = lose(bus, part)
        told = f"group {name} lost its disks: what it took of {CODE} from 20"
        wait_until(lambda: [one for one in blocked(bus) if one.startswith(told)], within=60, what="the loss is told")
        wait_until(lambda: f"group {name} lost its disks" in checks(bus), within=10, what="its reader reports it")
        read = len(got(subscriber))
        assert read < READ + AHEAD, "few were read ahead"
        assert got(subscriber) == SENT[:read], "nothing is passed over"
        counts = repaired(bus)
        left = len(SENT) - read
        assert (counts["selected"], counts["delivered"], counts["skipped"]) == (left, left - AFTER, AFTER)
        assert got(subscriber) == SENT[: READ + LOST]
        abandon = run_bus("ordering", "abandon", CODE, name, "--reason", "its disks", "--yes", "--url", bus.url)
        assert "lost its disks" in abandon.stdout, abandon.stderr
        wait_until(lambda: len(got(subscriber)) >= len(SENT), within=30, what="the others are delivered")
        assert got(subscriber) == SENT
        assert blocked(bus) == []
        delivered = {"delivered": len(SENT)}
        wait_until(lambda: bus.admin.statuses(CODE) == delivered, within=30, what="the store has it all")
