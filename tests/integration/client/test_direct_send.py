"""Messages that the producer's disk refuses go to the receiver directly; a send fails only if both refuse."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bus import AsyncBus, Bus, SpoolFull
from bus.client.network.http import ReceiverClient, Reply
from bus.client.outbox import Outbox
from bus.errors import ConfigurationError, SpoolError, SpoolFailed
from tests.integration.client.fake_receiver import FakeReceiver, Request, accept, refuse, status
from tests.integration.client.test_bus_processes import fork

FULL: dict[str, Any] = {"disk_reserve": 1 << 62}
PATIENT: dict[str, Any] = {"fallback_timeout": 60}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with FakeReceiver() as made:
        yield made


def broken(folder: Path) -> Path:
    """Return a root below a file, so that nothing can be made in it."""
    (folder / "file").touch()
    return folder / "file" / "spool"


@pytest.mark.parametrize("full", [True, False])
def test_a_message_that_the_disk_refuses_is_with_the_receiver(
    receiver: FakeReceiver, tmp_path: Path, full: bool
) -> None:
    given = {"spool": tmp_path, **FULL} if full else {"spool": broken(tmp_path)}
    with Bus(receiver.url, **given, **PATIENT) as bus:
        ids = [bus.send("a", n) for n in range(3)]
        assert [line["id"] for line in receiver.taken] == ids
        assert (bus.sent_straight, bus.pending) == (3, 0)
    assert {request.headers["bus-fallback"] for request in receiver.requests} == {"1"}


def test_it_is_said_once_for_each_outage_of_the_disk(
    receiver: FakeReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bus.client")
    append = Outbox.append

    def fail(self: Outbox, prepared: object) -> None:
        raise SpoolFailed("the disk failed")

    with Bus(receiver.url, spool=tmp_path, **PATIENT) as bus:
        for outage in (fail, append, fail, append):
            monkeypatch.setattr(Outbox, "append", outage)
            for n in range(3):
                bus.send("a", n)
        assert bus.flush(60)
        assert bus.sent_straight == 6
    said = [record.message for record in caplog.records if record.name == "bus.client"]
    assert sum("since the disk refuses" in message for message in said) == 2
    assert sum("takes messages again" in message for message in said) == 2
    assert {request.headers["bus-fallback"] for request in receiver.requests} == {"1", None}


def hang(request: Request) -> None:
    request.fake.hang(request)


@pytest.mark.parametrize(
    ("script", "seconds", "says"),
    [([hang], 0.2, "within 0.2 s"), ([status(503)], 60, "status 503"), ([status(401)], 60, "check the API key")],
)
def test_the_disk_and_the_receiver_together_lose_a_send(
    tmp_path: Path, script: list[Any], seconds: float, says: str
) -> None:
    with FakeReceiver(*script) as receiver, Bus(receiver.url, spool=tmp_path, fallback_timeout=seconds, **FULL) as bus:
        with pytest.raises(SpoolFull, match="disk") as error:
            bus.send("a", 1)
        assert says in str(error.value)
        assert error.value.retriable
        assert error.value.hint
        receiver.release.set()
        assert bus.sent_straight == 0


def test_an_unexpected_error_is_logged_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: ReceiverClient, *args: object, **options: object) -> Reply:
        raise RuntimeError("no such codec")

    monkeypatch.setattr(ReceiverClient, "post", fail)
    with Bus(NOWHERE, spool=tmp_path, **FULL, **PATIENT) as bus, pytest.raises(SpoolFull, match="no such codec"):
        bus.send("a", 1)
    [logged] = [record for record in caplog.records if "failed unexpectedly" in record.message]
    assert logged.exc_info
    assert logged.exc_info[0] is RuntimeError


def test_what_the_receiver_refuses_is_not_sent(receiver: FakeReceiver, tmp_path: Path) -> None:
    receiver.judge = refuse(404, detail="unknown destination")
    with (
        Bus(receiver.url, spool=tmp_path, **FULL, **PATIENT) as bus,
        pytest.raises(SpoolFull, match="unknown destination"),
    ):
        bus.send("a", 1)


def test_a_line_that_spoils_a_request_spoils_no_other(tmp_path: Path) -> None:
    async def send(url: str) -> list[Any]:
        async with AsyncBus(url, spool=tmp_path, **FULL, **PATIENT) as bus:
            return await asyncio.gather(*(bus.send("a", n) for n in range(10)), return_exceptions=True)

    def spoiled(request: Request) -> None:
        request.reply(413 if len(request.lines) > 1 or request.lines[0]["body"] == 5 else 200, b"{}")

    with FakeReceiver() as receiver:
        serve = receiver.serve

        def judged(request: Request) -> None:
            bad = any(line["body"] == 5 for line in request.lines)
            spoiled(request) if bad else serve(request)

        receiver.serve = judged  # type: ignore[method-assign]
        found = asyncio.run(send(receiver.url))
    assert [n for n, given in enumerate(found) if isinstance(given, SpoolFull)] == [5]
    assert len(receiver.taken) == 9


def test_turned_off_the_disk_alone_decides(receiver: FakeReceiver, tmp_path: Path) -> None:
    with Bus(receiver.url, spool=tmp_path, fallback_timeout=0, **FULL) as bus, pytest.raises(SpoolFull):
        bus.send("a", 1)
    assert receiver.requests == []
    with pytest.raises(ConfigurationError):
        Bus(receiver.url, fallback_timeout=-1)


def test_threads_share_requests(receiver: FakeReceiver, tmp_path: Path) -> None:
    ids: list[str] = []
    with Bus(receiver.url, spool=tmp_path, **FULL, **PATIENT) as bus:
        work = [threading.Thread(target=lambda: ids.extend(bus.send("a", n) for n in range(20))) for _ in range(8)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert bus.sent_straight == 160
    assert len(ids) == 160 == len(receiver.taken)
    assert set(ids) == receiver.ids()


def test_a_forked_child_sends_by_itself(receiver: FakeReceiver, tmp_path: Path) -> None:
    with Bus(receiver.url, spool=tmp_path, **FULL, **PATIENT) as bus:
        bus.send("parent", 1)

        def work() -> None:
            assert bus.sent_straight == 0
            bus.send("child", 2)
            assert bus.sent_straight == 1

        assert fork(work) == 0
        bus.send("parent", 3)
        assert bus.sent_straight == 2
    assert [line["destination"] for line in receiver.taken] == ["parent", "child", "parent"]


async def test_tasks_share_requests_and_each_has_its_own_error(receiver: FakeReceiver, tmp_path: Path) -> None:
    async with AsyncBus(receiver.url, spool=tmp_path, **FULL, **PATIENT) as bus:
        ids = await asyncio.gather(*(bus.send("a", n) for n in range(300)))
        assert set(ids) == receiver.ids()
        assert bus.sent_straight == 300
        assert len(receiver.requests) < 100
    async with AsyncBus(NOWHERE, spool=tmp_path, **FULL, **PATIENT) as bus:
        found = await asyncio.gather(*(bus.send("a", n) for n in range(5)), return_exceptions=True)
        assert all(isinstance(error, SpoolError) for error in found)
        assert len({id(error) for error in found}) == 5


def test_one_with_a_key_passes_none_that_waits_on_disk(
    receiver: FakeReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.judge = refuse(429)
    with Bus(receiver.url, spool=tmp_path, **PATIENT) as bus:
        bus.send("a", 1, key="k")

        def fail(self: Outbox, prepared: object) -> None:
            raise SpoolFull("the disk is full")

        monkeypatch.setattr(Outbox, "append", fail)
        with pytest.raises(SpoolFull, match="a message with a key is sent after them"):
            bus.send("a", 2, key="k")
        receiver.judge = accept
        bus.send("b", 3, key="k")
        assert bus.sent_straight == 1
        assert bus.flush(30)
        bus.send("a", 2, key="k")
        assert bus.sent_straight == 2
