"""Histories survive kills in mid-write, and merge by time."""

from __future__ import annotations

from pathlib import Path

from tests.harness.history import Event, History, merge, read_history, write_history
from tests.harness.producer import body_of, next_seq
from tests.harness.records import Call
from tests.harness.subscriber import parse_seq


def call(seq: int, t: float, status: int = 200) -> Call:
    return Call(
        t=t,
        path="/a",
        id=f"id-{seq}",
        sha256="h",
        status=status,
        attempt=1,
        destination="d",
        bytes=1,
        in_flight=1,
        seq=seq,
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    history = History(tmp_path / "h", "p")
    history.publish("invoke", 1, "hash")
    history.publish("ok", 1, "hash", id="id-1")
    history.close()
    first, second = read_history(tmp_path / "h")
    assert (first.type, first.seq, first.key, first.sha256, first.id) == ("invoke", 1, "p", "hash", "")
    assert (second.type, second.id) == ("ok", "id-1")


def test_a_missing_file_is_an_empty_history(tmp_path: Path) -> None:
    assert read_history(tmp_path / "none") == []


def test_a_torn_line_is_left_out_and_does_not_swallow_the_next(tmp_path: Path) -> None:
    path = tmp_path / "h"
    history = History(path, "p")
    history.publish("invoke", 1, "hash")
    history.publish("ok", 1, "hash")
    history.close()
    path.write_bytes(path.read_bytes()[:-9])
    again = History(path, "p")
    again.publish("invoke", 2, "hash")
    again.close()
    assert [(event.type, event.seq) for event in read_history(path)] == [("invoke", 1), ("invoke", 2)]


def test_a_producer_goes_on_after_the_last_number_it_tried(tmp_path: Path) -> None:
    path = tmp_path / "h"
    assert next_seq(path) == 0
    history = History(path, "p")
    history.publish("invoke", 0, "hash")
    history.publish("ok", 0, "hash")
    history.publish("invoke", 1, "hash")
    history.close()
    assert next_seq(path) == 2


def test_merging_orders_by_time_and_keeps_only_2xx() -> None:
    published = [Event(t=2, process="p", type="invoke", f="publish", key="p", seq=1)]
    merged = merge(published, [call(1, 3), call(2, 1), call(3, 2.5, status=503)])
    assert [(event.index, event.f, event.seq) for event in merged] == [
        (0, "deliver", 2),
        (1, "publish", 1),
        (2, "deliver", 1),
    ]


def test_a_merged_history_can_be_saved(tmp_path: Path) -> None:
    merged = merge([], [call(1, 1)])
    write_history(tmp_path / "h", merged)
    assert read_history(tmp_path / "h") == merged


def test_bodies_carry_their_number_and_have_their_size() -> None:
    body = body_of(42, "p", 256)
    assert len(body) == 256
    assert parse_seq(body) == 42
    assert parse_seq(b'{"seq": 7, "x": 1}') == 7
    assert parse_seq(b'{"other":1}') is None
    assert parse_seq(b'{"seq":"x","y":1}') is None
