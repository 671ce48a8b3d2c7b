"""Points of a curve: their load, the point of overload, and the range of the curve."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from bench.curves.curve import Curve, Line, counted, in_turns, rows, up_to
from bench.curves.load import Window, keeps_up, lateness, window_of
from bench.curves.picture import draw, short, spread
from bench.deliveries import messages_of
from bench.load import FIRST_SEQ
from bench.systems import concurrency_of

MOST_BYTES = 60_000


def test_each_message_is_as_late_as_it_comes_after_it_was_due() -> None:
    arrivals = {FIRST_SEQ: 100.5, FIRST_SEQ + 1: 100.25, FIRST_SEQ + 10: 105.0}
    assert lateness(100.0, 4, arrivals) == [0.0, 0.5, 2.5]


def test_what_never_came_is_not_in_time() -> None:
    window = window_of([0.01, 0.02, 0.03, 0.7], 5, 0.5)
    assert window.in_time == 0.6
    assert window.p99 == pytest.approx(700)
    assert window_of([], 5, 0.5).in_time == 0


@pytest.mark.parametrize(
    ("shares", "kept"),
    [((0.95,), True), ((0.94,), False), ((1.0, 0.2, 0.99), True), ((1.0, 0.2, 0.3), False)],
)
def test_a_load_is_kept_up_with_when_enough_is_in_time_in_most_rounds(shares: tuple[float, ...], *, kept: bool) -> None:
    assert keeps_up([Window(share, 1.0) for share in shares]) is kept


def test_a_run_goes_to_the_points_of_its_size() -> None:
    assert up_to(4, 1, 2, 4, 8) == [1, 2, 4]
    assert [messages_of(20_000, subscribers) for subscribers in (1, 2, 4, 64)] == [20_000, 20_000, 10_000, 625]
    assert messages_of(500, 64) == 100


def test_many_subscribers_share_the_connections_that_the_sink_can_take() -> None:
    assert [concurrency_of(subscribers) for subscribers in (0, 1, 16, 32, 64)] == [100, 100, 100, 50, 25]


def test_the_systems_take_turns() -> None:
    asked: list[tuple[str, int]] = []
    found = in_turns([1, 2], 2, lambda name, point: asked.append((name, point)) or len(asked))
    assert asked == [("bus", 1), ("nsq", 1), ("nsq", 1), ("bus", 1), ("bus", 2), ("nsq", 2), ("nsq", 2), ("bus", 2)]
    assert found == {"bus": {1: [1, 4], 2: [5, 8]}, "nsq": {1: [2, 3], 2: [6, 7]}}


def test_a_row_is_of_a_point_that_both_have() -> None:
    made = rows(lambda point: f"at {point}", "/s", {1: [10.0], 2: [30.0]}, {1: [5.0]})
    assert [(row.figure, row.ratio, row.target) for row in made] == [("at 1", 2.0, None)]


def test_numbers_and_things_are_written_as_people_do() -> None:
    assert [short(value) for value in (1, 0.5, 500, 1_000, 2_500, 1_000_000)] == ["1", "0.5", "500", "1k", "2.5k", "1M"]
    assert [counted(1, "process"), counted(4, "process"), counted(1_000, "subscriber")] == [
        "1 process",
        "4 processes",
        "1,000 subscribers",
    ]


def test_names_of_lines_do_not_cover_each_other() -> None:
    assert spread([100, 105, 200], 20) == [100, 120, 200]
    assert spread([], 20) == []


@pytest.mark.parametrize("is_log", [False, True])
def test_the_picture_is_a_small_png(tmp_path: Path, *, is_log: bool) -> None:
    points = {number: [number * 0.9, float(number), number * 1.2] for number in (1, 2, 4, 8, 16, 32, 64)}
    lines = [Line("Pier", points), Line("nsqd + nsq_to_http", {1: [2.0]}, is_reference=True)]
    path = tmp_path / "new" / "curve.png"
    draw(Curve("curve", "A title", "messages", "milliseconds", lines, is_log), path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">II", content[16:24]) == (1200, 700)
    assert len(content) < MOST_BYTES
