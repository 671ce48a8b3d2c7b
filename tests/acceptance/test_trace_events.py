"""Trace events of a real bus: every stage tells, the ledgers agree, and no fault of theirs is one of a message."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest

from bus import Bus
from bus.domain.identity import id_time
from bus.domain.tracing.events import Stage, decode_block
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.loop_disk import MIB, loop_disk
from tests.harness.subscribers import SubscriberProcess
from tests.harness.trace_events import blocks, gaps, ids, sums, told
from tests.harness.waiting import wait_until

BODY = b'{"seq":%d}'
SLACK = 5_000


def trouble(bus: BusProcess) -> str:
    """Return what is wrong with the bus's trace events."""
    checks = httpx.get(f"{bus.url}/readyz", **PLAIN).json()["checks"]
    return next(str(check["detail"]) for check in checks if check["name"] == "events")


def make(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "billing", subscriber.url("/s"))


def send(bus: BusProcess, first: int, count: int) -> list[str]:
    answers = [bus.admin.send("orders", BODY % seq).raise_for_status() for seq in range(first, first + count)]
    return [answer.json()["id"] for answer in answers]


def wait_arrived(subscriber: SubscriberProcess, count: int) -> None:
    wait_until(lambda: subscriber.count("/s") >= count, within=60, what=f"{count} deliveries")


def test_every_stage_tells_and_the_ledgers_agree(
    bus: BusProcess, subscriber: SubscriberProcess, tmp_path: Path
) -> None:
    make(bus, subscriber)
    with Bus(bus.url, spool=tmp_path / "spool", source="shop") as producer:
        sent = {producer.send("orders", {"seq": seq}, biz_id=f"order-{seq}") for seq in range(300)}
        assert producer.flush(60)
    wait_arrived(subscriber, 300)
    assert bus.stop() == 0
    found = blocks(bus.data)
    for stage, status in ((Stage.SENT, ""), (Stage.ACCEPTED, ""), (Stage.PUBLISHED, "confirmed")):
        assert ids(told(found, stage, status)) == dict.fromkeys(sent, 1), stage
    delivered = told(found, Stage.SETTLED, "delivered")
    assert ids(delivered) == dict.fromkeys(sent, 1)
    assert all(event.subscription == "billing" and event.code == 200 for event in delivered)
    assert all(event.latency_us >= 0 and event.duration_us > 0 and event.attempt == 1 for event in delivered)
    assert {event.expected for event in told(found, Stage.ACCEPTED)} == {("billing",)}
    assert sums(found, "sent") == sums(found, "accepted") == sums(found, "published")
    assert sums(found, "accepted") == sums(found, "expected", "billing") == sums(found, "delivered", "billing")
    assert gaps(found) == 0
    assert {block.role.split("+")[0] for block in found} == {"dispatcher", "producer"}
    (*earlier, last) = [block for block in found if block.role != "producer"]
    assert (last.last, any(block.last for block in earlier), earlier[0].seq) == (True, False, 1)
    assert not any((tmp_path / "spool").glob("events/*"))


def test_failures_retries_and_skips_are_told(bus: BusProcess, subscriber: SubscriberProcess) -> None:
    subscriber.configure("/s=fail:1,status:500")
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "billing", subscriber.url("/s"), retry=["200ms"], retry_max_attempts=3)
    bus.admin.subscription("orders", "picky", subscriber.url("/p"), filter="seq > `5`")
    (sent,) = send(bus, 1, 1)
    wait_until(lambda: bus.admin.metric("bus_deliveries_dead_total") == 1, within=60, what="the delivery is dead")
    assert bus.stop() == 0
    found = blocks(bus.data)
    failures = [event for event in told(found, Stage.SETTLED) if event.subscription == "billing"]
    assert [event.status for event in failures] == ["retrying"] * (len(failures) - 1) + ["dead"]
    assert [event.attempt for event in failures] == list(range(1, len(failures) + 1))
    assert {event.code for event in failures} == {500}
    assert failures[0].origin == "road"
    assert failures[-1].origin == "retry"
    assert {event.id for event in told(found, Stage.HANDED)} == {sent}
    (skipped,) = told(found, Stage.SETTLED, "skipped")
    assert (skipped.subscription, skipped.reason, skipped.attempt) == ("picky", "filter", 0)
    assert sums(found, "expected", "billing") == sums(found, "dead", "billing")
    assert sums(found, "expected", "picky") == sums(found, "skipped", "picky")


def test_a_kill_leaves_whole_lines_and_loses_the_last_moment_only(
    bus: BusProcess, subscriber: SubscriberProcess
) -> None:
    make(bus, subscriber)
    acknowledged: list[str] = []
    killed = threading.Event()

    def produce() -> None:
        while not killed.is_set():
            try:
                acknowledged.extend(send(bus, len(acknowledged), 1))
            except httpx.HTTPError:
                return

    producer = threading.Thread(target=produce)
    producer.start()
    try:
        wait_until(lambda: len(open_lines(bus.data)) >= 2, within=60, what="two blocks are written")
        bus.kill()
    finally:
        killed.set()
        producer.join()
    left = open_lines(bus.data)
    assert all(decode_block(line) for line in left[:-1])
    bus.start()
    wait_until(lambda: not old_open_files(bus), within=60, what="what was left open is closed")
    assert bus.stop() == 0
    found = blocks(bus.data)
    assert gaps(found) == 0
    before = [block for block in found if block.emitter == min(block.emitter for block in found)]
    assert not any(block.last for block in before)
    lost = set(acknowledged) - set(ids(told(found, Stage.ACCEPTED)))
    assert len(lost) < len(acknowledged)
    assert all(id_time(message_id) > before[-1].at - SLACK for message_id in lost)
    assert sums(before, "accepted")[0] == len(told(before, Stage.ACCEPTED))


def open_lines(data: Path) -> list[bytes]:
    """Return the lines of files that are being written, one that was cut off among them."""
    return [line for path in (data / "events").glob("*") for line in path.read_bytes().splitlines()]


def old_open_files(bus: BusProcess) -> list[Path]:
    paths = sorted((bus.data / "events").glob("*"))
    oldest = min(path.name[:36] for path in paths)
    return [path for path in paths if path.suffix == ".open" and path.name.startswith(oldest)]


def test_a_full_disk_of_their_own_holds_up_no_message(tmp_path: Path, subscriber: SubscriberProcess) -> None:
    with loop_disk(tmp_path, 64 * MIB) as disk:
        data = tmp_path / "data"
        data.mkdir()
        (data / "events").symlink_to(disk.path, target_is_directory=True)
        with BusProcess(data, env={"BUS_DISK_RESERVE": "0"}) as bus:
            make(bus, subscriber)
            send(bus, 0, 5)
            wait_until(lambda: bus.admin.metric("bus_events_emitted_total"), within=60, what="events are written")
            disk.fill(leave=MIB // 64)
            send(bus, 5, 200)
            wait_until(lambda: "bytes free" in trouble(bus), within=60, what="the trouble is told")
            wait_arrived(subscriber, 205)
            disk.empty()
            wait_until(lambda: not trouble(bus), within=60, what="events are written again")
            assert bus.stop() == 0
        found = blocks(data)
        assert gaps(found) == 0
        assert len(ids(told(found, Stage.SETTLED, "delivered"))) == 205
        # Once when it began, and once when it was over.
        assert bus.child.output().count("trace events are not written") == 2


def test_where_no_event_can_be_written_messages_flow_and_the_loss_is_told(
    tmp_path: Path, subscriber: SubscriberProcess
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "events").write_bytes(b"")  # no directory can be made there
    with BusProcess(data) as bus:
        make(bus, subscriber)
        send(bus, 0, 50)
        wait_until(lambda: trouble(bus), within=60, what="the trouble is told")
        wait_arrived(subscriber, 50)
        assert bus.stop() == 0
        assert "trace events were lost at the stop; no message was" in bus.child.output()


def test_without_events_there_are_none(tmp_path: Path, subscriber: SubscriberProcess) -> None:
    with BusProcess(tmp_path / "data", env={"BUS_EVENTS": "none"}) as bus:
        make(bus, subscriber)
        with Bus(bus.url, spool=tmp_path / "spool") as producer:
            producer.send("orders", {"seq": 1})
            assert producer.flush(60)
        wait_arrived(subscriber, 1)
        assert bus.stop() == 0
    assert not (bus.data / "events").exists()


@pytest.mark.parametrize("body", [b"{}", b'{"v":1}', b"\xff", b"x" * 2**19])
def test_what_is_no_block_is_refused(shared_bus: BusProcess, body: bytes) -> None:
    answer = shared_bus.admin.call("POST", "/v1/events", content=body, headers={"content-type": "application/x-ndjson"})
    assert answer.status_code in (413, 422)
    assert answer.headers["content-type"].startswith("application/problem+json")
