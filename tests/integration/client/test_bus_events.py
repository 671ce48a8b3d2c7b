"""A producer's trace events: written beside its spool, shipped when closed, and never in the way of a message."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus import Bus
from bus.client.events import shipping as event_shipping
from bus.domain.tracing.audit_ledger import ledger_of
from bus.domain.tracing.events import Stage, decode_block
from tests.harness.process import ROOT
from tests.harness.waiting import wait_until
from tests.integration.client.fake_receiver import FakeReceiver, Request


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with FakeReceiver() as fake:
        yield fake


def told(receiver: FakeReceiver) -> list[str]:
    """Return the ids of which the shipped files tell."""
    lines = [line for body in receiver.shipped for line in body.splitlines()]
    blocks = {(block.emitter, block.seq): block for block in map(decode_block, lines)}
    for block in blocks.values():
        assert block.role == "producer"
        assert block.ledger == ledger_of(block.events)
    return [event.id for block in blocks.values() for event in block.events]


def rest(root: Path) -> list[Path]:
    directory = root / "events"
    return sorted(directory.iterdir()) if directory.exists() else []


def test_what_was_sent_is_told_when_the_bus_is_closed(receiver: FakeReceiver, tmp_path: Path) -> None:
    with Bus(receiver.url, spool=tmp_path, source="shop") as bus:
        ids = [bus.send("orders", {"n": number}, biz_id=f"order-{number}") for number in range(25)]
    receiver.wait(lambda: sorted(told(receiver)) == sorted(ids))
    block = decode_block(receiver.shipped[0].splitlines()[0])
    first = block.events[0]
    assert (first.stage, first.destination, first.bytes, first.biz_id, first.source) == (
        *(Stage.SENT, "orders", 7, "order-0", "shop"),
    )
    assert rest(tmp_path) == []


def test_what_was_sent_is_told_while_the_bus_is_open(receiver: FakeReceiver, tmp_path: Path) -> None:
    with Bus(receiver.url, spool=tmp_path) as bus:
        ids = {bus.send("orders", b"x") for _ in range(2_500)}
        receiver.wait(lambda: ids == set(told(receiver)))


def test_without_events_nothing_is_written_or_shipped(receiver: FakeReceiver, tmp_path: Path) -> None:
    with Bus(receiver.url, spool=tmp_path, events=False) as bus:
        bus.send("orders", b"x")
        assert bus.flush(60)
    assert receiver.shipped == []
    assert not (tmp_path / "events").exists()


def test_what_is_not_taken_is_kept_and_shipped_by_the_next_process(receiver: FakeReceiver, tmp_path: Path) -> None:
    receiver.events_status = 503
    with Bus(receiver.url, spool=tmp_path) as bus:
        ids = [bus.send("orders", b"x") for _ in range(3)]
    receiver.wait(lambda: receiver.refused)
    (left,) = rest(tmp_path)
    assert left.suffix == ".jsonl"
    receiver.events_status = 202
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.start()
        receiver.wait(lambda: sorted(told(receiver)) == sorted(ids))
    assert rest(tmp_path) == []


def test_a_receiver_without_the_route_is_left_alone_without_a_word(
    receiver: FakeReceiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.events_status = 404
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.send("orders", b"x")
        receiver.wait(lambda: receiver.refused == 1)
        bus.send("orders", b"x")
        assert bus.flush(60)
    assert receiver.refused == 1
    assert "trace events" not in caplog.text


def test_what_is_refused_for_good_is_deleted_and_told(
    receiver: FakeReceiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.events_status = 422
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.send("orders", b"x")
    assert receiver.refused == 1
    assert rest(tmp_path) == []
    assert caplog.text.count("are deleted") == 1


def test_a_file_that_another_process_ships_is_left_to_it(
    receiver: FakeReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.events_status = 503
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.send("orders", b"x")
    (left,) = rest(tmp_path)
    receiver.events_status = 202
    with event_shipping._claimed(left) as mine:
        assert mine
        with event_shipping._claimed(left) as others:
            assert others == b""
    with event_shipping._claimed(tmp_path / "none") as gone:
        assert gone == b""


def test_a_receiver_that_hangs_on_events_holds_up_no_message(receiver: FakeReceiver, tmp_path: Path) -> None:
    receiver.events_status = 503
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.send("orders", b"x")
    assert len(rest(tmp_path)) == 1
    hanging: list[Request] = []

    def hang(request: Request, _: bytes) -> None:
        hanging.append(request)
        receiver.hang(request)

    receiver.take_events = hang  # type: ignore[method-assign]
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.start()
        wait_until(lambda: hanging, within=60, what="a file is shipped")
        for _ in range(20):
            bus.send("orders", b"x")
        receiver.wait(lambda: len(receiver.taken) == 21)
        assert len(hanging) == 1
        receiver.release.set()


SENDER = """
import sys
from bus import Bus
with Bus(sys.argv[1], spool=sys.argv[2]) as bus:
    for number in range(10**9):
        print(bus.send("orders", {"n": number}), flush=True)
"""


def test_after_a_kill_whole_blocks_are_shipped_by_the_next_process(receiver: FakeReceiver, tmp_path: Path) -> None:
    sender = subprocess.Popen(
        [sys.executable, "-c", SENDER, receiver.url, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    with sender:
        assert sender.stdout is not None
        while not any(path.stat().st_size for path in rest(tmp_path)):
            sender.stdout.readline()
        sender.kill()
        sender.wait()
        assert len(rest(tmp_path)) >= 1
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.start()
        wait_until(lambda: not rest(tmp_path), within=60, what="every file is shipped")
        # What the killed one left behind is in a directory of its own, which no count of this bus includes.
        receiver.wait(lambda: set(told(receiver)) <= receiver.ids())
    seqs: dict[str, list[int]] = {}
    for body in receiver.shipped:
        for line in body.splitlines():
            found: dict[str, Any] = json.loads(line)
            seqs.setdefault(found["emitter"], []).append(found["seq"])
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in seqs.values())
