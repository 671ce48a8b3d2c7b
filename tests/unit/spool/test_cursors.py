"""The bookkeeping without a disk."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bus.errors import SpoolError
from bus.spool.cache import ROW_COST, TailCache
from bus.spool.cursors import WINDOW, Cursors
from bus.spool.record import LANE_SHIFT, checksum, intact, runs
from bus.spool.section import Cursor, Lane, Section, SectionOptions


def cursors_of(consumers: Sequence[str], cache_bytes: int) -> Cursors:
    return Cursors({"": SectionOptions(consumers)}, cache_bytes)


def filled(cursors: Cursors, lane: str, count: int) -> Lane:
    """Put committed records into a lane, and the cache."""
    place = cursors.open_lane(cursors.sections[""], lane)
    rows = [(position, 5, 0, b"x") for position in range(place.last + 1, place.last + count + 1)]
    place.last = place.committed = place.last + count
    place.section.count(place, count, 0)
    for cursor in place.cursors.values():
        cursor.pending += count
        cursors.sections[""].refresh(cursor)
    cursors.cache.add(rows)
    return place


def claim(cursors: Cursors, consumer: str, lane: str, limit: int) -> list:
    cursor = cursors.sections[""].find(lane, consumer)
    rows = cursors.from_cache(cursor, limit)
    return cursors.hold(cursor, rows, cursor.next + len(rows))


def test_positions_hold_the_lane_and_the_sequence() -> None:
    cursors = cursors_of(["send"], 1000)
    assert [cursors.open_lane(cursors.sections[""], name).first for name in "ab"] == [
        (1 << LANE_SHIFT) + 1,
        (2 << LANE_SHIFT) + 1,
    ]
    assert cursors.open_lane(cursors.sections[""], "a").end < cursors.open_lane(cursors.sections[""], "b").first


def test_the_last_ack_dooms_a_record_whoever_it_is() -> None:
    cursors = cursors_of(["send", "store"], 1 << 20)
    lane = filled(cursors, "a", 3)
    sent, stored = (claim(cursors, consumer, "a", 3) for consumer in ("send", "store"))
    cursors.ack("send", sent)
    assert cursors.doomed == []
    cursors.ack("store", stored[1:])
    assert cursors.doomed == [record.position for record in stored[1:]]
    assert (lane.records, len(cursors.cache)) == (1, 1)
    cursors.ack("store", stored)
    assert len(cursors.doomed) == 3
    assert cursors.sections[""].records <= 0


@pytest.mark.parametrize("step", [1, -1, 7])
def test_the_acks_of_a_record_look_at_each_consumer_a_few_times(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"s{number}" for number in range(200)]
    cursors, looks = cursors_of(names, 1 << 20), list[str]()
    plain = Cursor.is_done
    monkeypatch.setattr(Cursor, "is_done", lambda self, at: looks.append(self.consumer) or plain(self, at))
    filled(cursors, "a", 3)
    held = {name: claim(cursors, name, "a", 3) for name in names}
    for name in names[::step] if step < 7 else sorted(names, key=lambda name: int(name[1:]) * 7 % 200):
        for record in held[name]:
            cursors.ack(name, [record])
    assert len(cursors.doomed) == 3
    assert len(looks) <= 3 * 3 * len(names)


def test_what_another_consumer_gave_back_is_not_doomed() -> None:
    cursors = cursors_of(["publish", "store"], 1 << 20)
    filled(cursors, "a", 1)
    published, stored = (claim(cursors, consumer, "a", 1) for consumer in ("publish", "store"))
    cursors.release("store", stored)
    cursors.ack("publish", published)
    assert cursors.doomed == []


def test_a_sole_consumer_needs_no_row_for_its_acks() -> None:
    cursors = cursors_of(["send"], 1 << 20)
    filled(cursors, "a", 10)
    cursors.dirty.clear()
    cursors.ack("send", claim(cursors, "send", "a", 10))
    assert cursors.dirty == {}


def test_a_cursor_is_stored_before_its_window_is_half_used() -> None:
    cursors = cursors_of(["send"], 1 << 24)
    filled(cursors, "a", WINDOW)
    cursors.dirty.clear()
    claim(cursors, "send", "a", WINDOW // 2 - 1)
    assert cursors.dirty == {}
    claim(cursors, "send", "a", 1)
    assert list(cursors.dirty) == [cursors.sections[""].find("a", "send")]


def test_given_back_positions_come_in_order_and_once() -> None:
    section = Section("", SectionOptions(), TailCache(0))
    cursor = Cursor(Lane(1, "a", section), "send", 1)
    for position in (5, 2, 9, 2):
        cursor.give_back(position, position * 10)
    assert [cursor.pop_back() for _ in range(3)] == [(2, 20), (5, 50), (9, 90)]
    cursor.next = 100
    cursor.give_back(4, 1)
    assert cursor.forget(4)
    assert not cursor.forget(4)
    cursor.give_back(7, 1)
    assert cursor.pop_back() == (7, 1)


def test_attach_needs_a_name_of_its_own_after_detach() -> None:
    cursors = cursors_of([], 1000)
    with pytest.raises(SpoolError):
        cursors.admit(cursors.sections[""], "a")
    for _ in range(3):
        cursors.attach(cursors.sections[""], "a", "sub")
        cursors.detach(cursors.sections[""], "a", "sub")
    assert len(cursors.ending) == 3
    assert len(cursors.open_lane(cursors.sections[""], "a").cursors) == 3
    assert cursors.sections[""].find("a", "sub") is None
    assert cursors.sections[""].stats().consumers == []


def test_what_waits_is_looked_for_in_the_lanes_that_hold_records() -> None:
    cursors = cursors_of(["send"], 1 << 20)
    section = cursors.sections[""]
    for number in range(100):
        filled(cursors, f"empty {number}", 0)
    for name in ("a", "b"):
        filled(cursors, name, 1)
    assert [found.lane for found in section.waiting()] == ["a", "b"]
    assert [lane.name for lane in section.filled] == ["a", "b"]
    cursors.ack("send", claim(cursors, "send", "a", 1))
    assert [found.lane for found in section.waiting()] == [lane.name for lane in section.filled] == ["b"]


def test_ready_lanes_rotate_and_leave_when_empty() -> None:
    cursors = cursors_of(["send"], 1 << 20)
    for name in "abc":
        filled(cursors, name, 2)
    claim(cursors, "send", "a", 1)
    assert cursors.sections[""].ready("send") == ("b", "c", "a")
    held = claim(cursors, "send", "b", 2)
    assert cursors.sections[""].ready("send") == ("c", "a")
    cursors.release("send", held)
    assert cursors.sections[""].ready("send") == ("c", "a", "b")
    assert cursors.sections[""].is_ready("send", "b")
    assert not cursors.sections[""].is_ready("send", "z")
    assert not cursors.sections[""].is_ready("nobody", None)


def test_runs_join_neighbours() -> None:
    assert runs([5, 1, 2, 3, 9, 8]) == [(1, 3), (5, 5), (8, 9)]
    assert runs([7]) == [(7, 7)]


def test_the_cache_drops_its_oldest_over_the_limit() -> None:
    cache = TailCache(3 * (ROW_COST + 10))
    cache.add([(position, 0, 0, bytes(10)) for position in range(5)])
    assert [position for position in range(5) if cache.get(position)] == [2, 3, 4]
    cache.drop(3)
    cache.drop(3)
    assert cache.bytes == 2 * (ROW_COST + 10)
    cache.add([(9, 0, 0, bytes(1 << 20))])
    assert (len(cache), cache.bytes) == (0, 0)


@pytest.mark.parametrize(
    "row",
    [
        (2, 7, checksum(1, 7, b"x"), b"x"),
        (1, 8, checksum(1, 7, b"x"), b"x"),
        (1, 7, checksum(1, 7, b"x"), b"y"),
        (1, 7, checksum(1, 7, b"x") + 1, b"x"),
        (1, None, 0, b"x"),
        (1, 7, 0, None),
        (1 << 70, 7, 0, b""),
    ],
)
def test_any_changed_field_shows(row: tuple) -> None:
    assert intact((1, 7, checksum(1, 7, b"x"), b"x"))
    assert not intact(row)
