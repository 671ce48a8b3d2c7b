"""The daemon's reaction to each response of the receiver."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from bus.domain.identity import id_time
from bus.errors import SpoolFailed
from bus.ports.spool import NewRecord
from bus.spool import BlockingSpool
from tests.unit.client.world import START, World, accepted, problem, refused, world


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, sweep_seconds=1000) as made:
        yield made


def failing(status: int, **headers: str) -> Any:
    return lambda _: httpx.Response(status, json=problem(status), headers=headers)


def test_what_was_taken_leaves_the_spool(here: World) -> None:
    ids = [here.send() for _ in range(3)]
    here.judge = lambda line: {"id": line["id"], "status": "duplicate" if line["id"] == ids[1] else "accepted"}
    here.work()
    assert here.sent() == ids
    assert here.counts() == (0, 0)
    assert here.spool.stats().records == 0


def test_each_request_says_what_waits_in_the_queue_and_for_how_long(here: World) -> None:
    here.answer = failing(503)
    here.send()
    here.work()
    here.time.elapsed += 1000
    here.send()
    here.judge, here.answer = accepted, here.judged
    here.work()
    number = here.spool.directory.stem.rpartition("-")[2]
    assert here.queues[0] == f"records=1, oldest_ms=0, id={number}"
    assert here.queues[-1] == f"records=2, oldest_ms=1000000, id={number}"


def test_a_record_that_is_not_on_disk_yet_has_not_waited_since_1970(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    stats = here.spool.stats()
    here.send()
    found = [one._replace(oldest=None) for one in here.spool.stats().consumers]
    monkeypatch.setattr(type(here.spool), "stats", lambda _: stats._replace(records=1, consumers=found))
    report = here.sender().report()
    assert report is not None
    assert (report.records, report.oldest) == (1, 0)


def test_batches_are_bounded_in_lines_and_bytes(here: World) -> None:
    for _ in range(1500):
        here.send()
    here.work()
    assert [len(lines) for lines in here.requests] == [1000, 500]
    for _ in range(20):
        here.send(body=b"x" * (1 << 20))
    here.requests.clear()
    here.work()
    assert [len(lines) for lines in here.requests] == [11, 9]  # 4/3 MiB each


def test_lanes_share_a_batch(here: World) -> None:
    for _ in range(2000):
        here.send("loud")
    quiet = here.send("quiet")
    here.daemon.step()
    assert quiet in here.sent()
    assert len(here.requests[0]) == 1000


def test_messages_of_a_destination_leave_in_order(here: World) -> None:
    ids = [here.send("a" if n % 3 else "b") for n in range(300)]
    here.work()
    order = [line["id"] for line in here.requests[0] if line["destination"] == "a"]
    assert order == [given for n, given in enumerate(ids) if n % 3]


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 502, 503, 507, 301])
def test_a_request_refused_as_a_whole_is_kept_and_repeated_with_backoff(here: World, status: int) -> None:
    ids = [here.send(), here.send()]
    here.answer = failing(status)
    assert here.work() == 0.25
    assert here.counts() == (2, 0)
    for wait in (0.5, 1, 2):
        here.time.elapsed += wait / 2
        assert here.work() == wait
    here.answer = here.judged
    here.time.elapsed += 2
    here.work()
    assert here.counts() == (0, 0)
    assert here.requests[-1] == here.requests[0]
    assert here.sent() == ids * 5


@pytest.mark.parametrize(
    "error", [httpx.ConnectError("no"), httpx.ReadError("reset"), httpx.RemoteProtocolError("bad"), OSError("gone")]
)
def test_no_answer_is_repeated(here: World, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> httpx.Response:
        raise error

    here.send()
    here.answer = fail
    with caplog.at_level(logging.INFO, "bus.client"):
        assert here.work() == 0.25
        here.time.elapsed += 0.25
        assert here.work() == 0.5
        here.answer = here.judged
        here.time.elapsed += 0.5
        here.work()
    assert here.counts() == (0, 0)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]  # once each, not for each try


def test_retry_after_is_honoured_as_seconds_and_as_a_date(here: World) -> None:
    here.send()
    here.answer = failing(503, **{"retry-after": "7"})
    assert here.work() == 7.25
    here.daemon.hurry()
    assert here.work() == 7.25
    assert len(here.requests) == 1
    here.time.elapsed = 8
    moment = datetime.fromtimestamp(START / 1000 + 68, UTC)
    here.answer = failing(429, **{"retry-after": format_datetime(moment, usegmt=True)})
    assert here.work() == pytest.approx(60.25)
    here.time.elapsed = 100
    here.answer = failing(429, **{"retry-after": "soon"})
    assert here.work() <= 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b'{"results": []}',
        b'{"results": [{"id": "other", "status": "accepted"}]}',
        b'{"results": [{"status": "accepted"}]}',
        b'{"results": [{"id": 5, "status": "accepted"}]}',
        b"\xff\xfe",
    ],
)
def test_an_answer_that_is_not_a_receivers_acks_nothing(here: World, body: bytes) -> None:
    here.send()
    here.answer = lambda _: httpx.Response(200, content=body)
    here.work()
    assert here.counts() == (1, 0)
    here.answer = here.judged
    here.time.elapsed = 60
    here.work()
    assert here.counts() == (0, 0)


def test_an_answer_without_end_is_cut_off(here: World) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"x" * 65536

    here.send()
    here.answer = lambda _: httpx.Response(200, content=endless())
    here.work()
    assert here.counts() == (1, 0)


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422])
def test_a_line_refused_for_good_is_set_aside_with_its_reason(
    here: World, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    good, bad, later = here.send(), here.send(), here.send()
    here.judge = lambda line: refused(line, status) if line["id"] == bad else accepted(line)
    here.work()
    assert here.counts() == (0, 1)
    assert len(here.requests) == 1
    ((kept, reason, line),) = here.reasons()
    assert (kept, reason, line["id"]) == (status, f"because {status}", bad)
    assert {good, later} <= set(here.sent())
    assert f"because {status}" in caplog.text


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_line_refused_for_now_waits_without_holding_up_others(here: World, status: int) -> None:
    held = here.send("held")
    here.judge = lambda line: refused(line, status) if line["destination"] == "held" else accepted(line)
    here.send("free")
    assert here.work() == 0.25
    assert here.counts() == (1, 0)
    free = here.send("free")
    here.daemon.step()
    assert here.sent()[-1] == free
    here.time.elapsed = 0.25
    assert here.work() == 0.5
    here.judge = accepted
    here.daemon.hurry()
    here.work()
    assert here.sent()[-1] == held
    assert here.counts() == (0, 0)


def test_a_line_says_itself_when_to_come_again_and_only_its_lane_waits(here: World) -> None:
    def judge(line: dict[str, Any]) -> dict[str, Any]:
        if line["destination"] != "slow" or here.time.elapsed >= 40:
            return accepted(line)
        answer = refused(line, 429)
        answer["error"]["retry_after"] = 40
        return answer

    here.judge = judge
    ids = [here.send("slow"), here.send("quick")]
    assert here.work() >= 1
    assert here.counts() == (1, 0)
    here.time.elapsed = 39.9
    later = here.send("quick")
    here.work()
    assert here.sent() == [*sorted(ids, key=here.sent().index), later]
    here.time.elapsed = 41
    here.work()
    assert here.counts() == (0, 0)


def test_of_a_lane_over_its_rate_no_more_is_sent_than_is_taken(here: World) -> None:
    """A whole request, refused but for two lines, would be sent every second."""
    left = 0

    def judge(line: dict[str, Any]) -> dict[str, Any]:
        nonlocal left
        left -= 1
        return accepted(line) if left >= 0 else refused(line, 429)

    here.judge = judge
    for _ in range(200):
        here.send("slow")
    sizes = []
    for _ in range(60):
        left, before = 2, len(here.requests)
        here.work()
        sizes += [len(lines) for lines in here.requests[before:]]
        here.time.elapsed += 60
    assert sizes[0] == 200
    assert max(sizes[1:]) <= 8
    left = 10_000
    while here.counts() != (0, 0):
        here.work()
        here.time.elapsed += 60
    assert len(here.requests) < 80


def test_a_line_that_waited_too_long_gets_a_new_id_by_the_receivers_clock(here: World) -> None:
    first = here.send()
    receiver_time = datetime.fromtimestamp(START / 1000 + 5000, UTC)

    def answer(lines: list[dict[str, Any]]) -> httpx.Response:
        results = [accepted(line) if "original_id" in line else refused(line, 422, "id_time") for line in lines]
        return httpx.Response(
            200, json={"results": results}, headers={"date": format_datetime(receiver_time, usegmt=True)}
        )

    here.answer = answer
    here.work()
    assert here.counts() == (0, 0)
    renamed = here.requests[1][0]
    assert renamed["original_id"] == first
    assert id_time(renamed["id"]) == START + 5_000_000
    assert {**renamed, "id": 0, "original_id": 0} == {**here.requests[0][0], "id": 0, "original_id": 0}


def test_a_clock_that_never_fits_makes_no_storm(here: World) -> None:
    first = here.send()
    here.judge = lambda line: refused(line, 422, "id_time")
    assert here.work() == 0.25
    assert len(here.requests) == 2
    here.time.elapsed = 0.25
    assert here.work() == 0.5
    assert [lines[0].get("original_id") for lines in here.requests] == [None, first, first]
    assert here.counts() == (1, 0)


def test_a_clock_that_fits_again_is_soon_known_however_many_wait(here: World) -> None:
    for _ in range(30):
        here.send()
    here.judge = lambda line: refused(line, 422, "id_time")
    assert here.work() == 0.25, "a request is refused once, and not each of its lines"
    here.judge = accepted
    here.time.elapsed = 0.25
    here.work()
    assert here.counts() == (0, 0)


def test_a_request_too_large_for_a_proxy_is_halved_and_a_single_line_set_aside(here: World) -> None:
    ids = [here.send(body=b"x" * 100) for _ in range(5)]
    huge = here.send(body=b"x" * 5000)

    def answer(lines: list[dict[str, Any]]) -> httpx.Response:
        size = sum(len(line["body_base64"]) for line in lines)
        return httpx.Response(413) if size > 300 else here.judged(lines)

    here.answer = answer
    here.work()
    assert here.counts() == (0, 1)
    assert here.reasons()[0][2]["id"] == huge
    assert set(ids) <= set(here.sent())


def test_a_record_that_is_no_line_is_set_aside(here: World) -> None:
    here.spool.append([NewRecord("out/a", b"\x00", START)])
    good = here.send()
    here.work()
    assert here.sent() == [good]
    assert here.counts() == (0, 1)


def test_a_full_spool_still_lets_good_records_go(tmp_path: Path) -> None:
    with world(tmp_path, spool_limit=1 << 20, sweep_seconds=1000) as here:
        bad = [here.send("bad", body=b"x" * 100_000) for _ in range(4)]
        for _ in range(3):
            here.send("good", body=b"x" * 100_000)
        here.judge = lambda line: refused(line, 404) if line["destination"] == "bad" else accepted(line)
        for _ in range(10):
            here.time.elapsed += here.work()
        assert here.counts() == (0, len(bad))


def test_an_unexpected_error_does_not_end_the_thread(here: World, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: object) -> httpx.Response:
        raise ZeroDivisionError

    here.send()
    here.answer = fail
    assert here.daemon._careful_step() == 0.25
    assert "ZeroDivisionError" in caplog.text
    here.answer = here.judged
    here.time.elapsed = 0.25
    here.work()
    assert here.counts() == (0, 0)


def test_the_failure_of_the_own_spool_ends_the_thread_and_wakes_who_waits(
    here: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise SpoolFailed("the disk failed")

    here.send()
    monkeypatch.setattr(BlockingSpool, "claim", fail)
    here.daemon.run()
    assert here.daemon.has_ended
    assert here.daemon.is_resting
    assert "the disk failed" in caplog.text


def test_new_messages_wake_nobody_during_an_outage(here: World) -> None:
    here.send()
    here.answer = failing(503)
    wait = here.work()
    here.send()
    here.daemon.ring()
    assert not here.daemon._bell.is_set()
    here.time.elapsed += wait
    here.answer = here.judged
    here.work()
    assert here.counts() == (0, 0)
    here.daemon.ring()
    assert here.daemon._bell.is_set()
