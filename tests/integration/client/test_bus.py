"""The SDK with its daemon, against a real HTTP server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus import Bus, SpoolFull
from bus.client.outbox import Outbox
from bus.client.spooling.home import homes
from bus.errors import SpoolClosed, SpoolFailed
from bus.spool import is_live
from tests.harness.process import free_port
from tests.harness.waiting import wait_until
from tests.integration.client.fake_receiver import FakeReceiver, body_of, close, half, refuse, status

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with FakeReceiver() as made:
        yield made


def test_a_message_arrives_as_it_was_sent(receiver: FakeReceiver, tmp_path: Path) -> None:
    with Bus(receiver.url, api_key="k", spool=tmp_path, source="shop") as bus:
        given = bus.send(
            "a.b", b"\x00\xff", biz_id="42", key="7", routing_key="eu.de", headers={"x-own": "ü", "traceparent": "00-1"}
        )
        bus.send("a.b", {"order": 42}, deliver_at="2030-01-01T00:00:00Z", content_type="application/x+json")
        assert bus.flush(60)
        assert (bus.pending, bus.rejected) == (0, 0)
    first, second = receiver.taken
    assert body_of(first) == b"\x00\xff"
    assert {
        name: first[name]
        for name in ("id", "destination", "biz_id", "key", "routing_key", "source", "traceparent", "headers")
    } == {
        "id": given,
        "destination": "a.b",
        "biz_id": "42",
        "key": "7",
        "routing_key": "eu.de",
        "source": "shop",
        "traceparent": "00-1",
        "headers": {"x-own": "ü"},
    }
    assert first["content_type"] == "application/octet-stream"
    assert (second["body"], second["content_type"]) == ({"order": 42}, "application/x+json")
    assert second["deliver_at"] == "2030-01-01T00:00:00.000Z"
    assert {request.headers["authorization"] for request in receiver.requests} == {"Bearer k"}


def test_an_emptied_directory_is_removed_at_close(receiver: FakeReceiver, tmp_path: Path) -> None:
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.send("a", 1)
        (home,) = homes(tmp_path)
        assert is_live(home)
    assert homes(tmp_path) == []
    assert len(receiver.taken) == 1


def test_bad_answers_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    script = (status(503), close, half, status(429, retry_after="0"), status(200, b"garbage"), status(401), status(500))
    with FakeReceiver(*script) as receiver, Bus(receiver.url, spool=tmp_path, backoff_first=0.01) as bus:
        ids = [bus.send("a", n) for n in range(20)]
        assert bus.flush(60)
        assert sorted(line["id"] for line in receiver.taken) == sorted(ids)
        assert [line["body"] for line in receiver.taken] == list(range(20))


def test_order_is_kept_over_failures(tmp_path: Path) -> None:
    script = (status(503), close) * 5
    with FakeReceiver(*script) as receiver, Bus(receiver.url, spool=tmp_path, backoff_first=0.001) as bus:
        for n in range(500):
            bus.send("a" if n % 2 else "b", n)
        assert bus.flush(60)
        for code, numbers in (("a", range(1, 500, 2)), ("b", range(0, 500, 2))):
            assert [line["body"] for line in receiver.taken if line["destination"] == code] == list(numbers)


def test_send_never_waits_for_a_receiver_that_hangs(tmp_path: Path) -> None:
    with FakeReceiver() as receiver, Bus(receiver.url, spool=tmp_path) as bus:
        receiver._script.append(receiver.hang)
        bus.send("a", 0)
        receiver.wait(lambda: receiver.requests)
        begin = time.monotonic()
        for n in range(20):
            bus.send("a", n)
        assert time.monotonic() - begin < 15
        assert not bus.flush(0.05)
        assert bus.pending == 21
        receiver.release.set()
        assert bus.flush(60)


def test_flush_waits_only_for_what_was_sent_before(receiver: FakeReceiver, tmp_path: Path) -> None:
    stop = threading.Event()
    with Bus(receiver.url, spool=tmp_path) as bus:

        def chatter() -> None:
            while not stop.is_set():
                bus.send("other", 1)

        thread = threading.Thread(target=chatter)
        thread.start()
        given = bus.send("mine", 1)
        assert bus.flush(60)
        assert given in receiver.ids()
        stop.set()
        thread.join()


def test_refused_messages_are_counted_and_kept(receiver: FakeReceiver, tmp_path: Path) -> None:
    receiver.judge = refuse(404)
    with Bus(receiver.url, spool=tmp_path) as bus:
        bus.send("nowhere", 1)
        assert bus.flush(60)
        assert (bus.pending, bus.rejected) == (0, 1)
    assert (bus.pending, bus.rejected) == (0, 1)
    (left,) = homes(tmp_path)
    assert not is_live(left)


def test_what_was_left_is_still_told_once_it_is_closed(tmp_path: Path) -> None:
    bus = Bus(f"http://127.0.0.1:{free_port()}", spool=tmp_path)
    for n in range(3):
        bus.send("a", n)
    bus.close(0)
    assert bus.pending == 3


def test_close_waits_for_a_receiver_that_takes_and_not_for_one_that_does_not(tmp_path: Path) -> None:
    with FakeReceiver() as receiver:
        with Bus(receiver.url, spool=tmp_path) as bus:
            for n in range(100):
                bus.send("a", n)
        assert len(receiver.taken) == 100
        bus = Bus("http://127.0.0.1:9", spool=tmp_path)
        given = bus.send("a", 1)
        begin = time.monotonic()
        bus.close(timeout=60)
        assert time.monotonic() - begin < 30
        with Bus(receiver.url, spool=tmp_path) as heir:
            heir.start()
            receiver.wait(lambda: given in receiver.ids())


def test_a_hanging_receiver_holds_up_close_for_no_longer_than_asked(tmp_path: Path) -> None:
    with FakeReceiver() as receiver:
        receiver._script.append(receiver.hang)
        bus = Bus(receiver.url, spool=tmp_path)
        bus.send("a", 1)
        receiver.wait(lambda: receiver.requests)
        begin = time.monotonic()
        bus.close(timeout=0.1)
        assert time.monotonic() - begin < 20
        assert len(homes(tmp_path)) == 1
        receiver.release.set()
        wait_until(lambda: "bus-send" not in {thread.name for thread in threading.enumerate()}, within=60, what="end")


def test_a_full_spool_refuses_new_messages_and_keeps_the_old(tmp_path: Path) -> None:
    with FakeReceiver() as receiver:
        with Bus("http://127.0.0.1:9", spool=tmp_path, spool_limit=100_000) as bus:
            sent = []
            with pytest.raises(SpoolFull) as error:
                sent.extend(bus.send("a", n) for n in range(1000))
            assert error.value.retriable
            assert error.value.hint
            assert bus.pending == len(sent)
        with Bus(receiver.url, spool=tmp_path) as heir:
            heir.start()
            receiver.wait(lambda: set(sent) == receiver.ids())


def test_a_disk_without_its_reserve_refuses(tmp_path: Path) -> None:
    with Bus("http://127.0.0.1:9", spool=tmp_path, disk_reserve=1 << 62) as bus, pytest.raises(SpoolFull):
        bus.send("a", 1)


def test_after_a_disk_failure_the_next_message_goes_to_a_new_file(
    receiver: FakeReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Bus(receiver.url, spool=tmp_path, fallback_timeout=0) as bus:
        bus.send("a", 1)
        append = Outbox.append

        def fail(self: Outbox, records: object) -> None:
            monkeypatch.setattr(Outbox, "append", append)
            raise SpoolFailed("the disk failed")

        monkeypatch.setattr(Outbox, "append", fail)
        with pytest.raises(SpoolFailed):
            bus.send("a", 2)
        given = bus.send("a", 3)
        assert bus.flush(60)
        assert given in receiver.ids()


def test_threads_share_one_bus(receiver: FakeReceiver, tmp_path: Path) -> None:
    ids: list[str] = []
    with Bus(receiver.url, spool=tmp_path) as bus:

        def work(n: int) -> None:
            ids.extend(bus.send(f"d{n % 3}", {"n": n, "i": i}) for i in range(100))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bus.flush(60)
    assert len(ids) == 1200 == len(receiver.taken)
    assert set(ids) == receiver.ids()


def test_closing_under_senders_is_clear(receiver: FakeReceiver, tmp_path: Path) -> None:
    sent: list[str] = []
    errors: list[Exception] = []
    bus = Bus(receiver.url, spool=tmp_path)
    bus.send("a", 0)

    def work() -> None:
        try:
            while True:
                sent.append(bus.send("a", 1))
        except SpoolClosed as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    receiver.wait(lambda: len(receiver.taken) > 50)
    bus.close(timeout=0)
    for thread in threads:
        thread.join()
    assert len(errors) == 4
    with Bus(receiver.url, spool=tmp_path) as heir:
        heir.start()
        receiver.wait(lambda: set(sent) <= receiver.ids())
