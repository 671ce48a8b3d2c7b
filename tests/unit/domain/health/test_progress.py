"""Progress of a backlog: each rule over a window of positions and lags, and the window's content."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from bus.domain.health.progress import EVERY, WINDOW, Observation, Progress, Verdict, Windows, judge, worst
from bus.domain.times import MINUTE

START = 1_000_000
STEPS = WINDOW // EVERY + 1


def window(positions: Iterable[int], lags: Iterable[int], every: int = EVERY) -> list[Observation]:
    return [
        Observation(START + number * every, position, lag)
        for number, (position, lag) in enumerate(zip(positions, lags, strict=False))
    ]


def verdict(positions: Iterable[int], lags: Iterable[int], later: int = 0) -> Verdict:
    seen = window(positions, lags)
    return judge(seen, seen[-1].at + later)


def test_nothing_seen_is_well() -> None:
    assert judge([], START) is Verdict.WELL


def test_no_lag_at_any_time_is_well() -> None:
    assert verdict([5] * STEPS, [9] * (STEPS - 1) + [0]) is Verdict.WELL
    assert verdict([5] * STEPS, [0] + [9] * (STEPS - 1)) is Verdict.WELL
    assert verdict(range(STEPS), [9] * 3 + [0] + list(range(9, 30))) is Verdict.WELL


@pytest.mark.parametrize("lags", [[9] * STEPS, range(9, 9 + STEPS), [9] * (STEPS - 1) + [10]])
def test_a_position_that_does_not_move_while_there_is_lag_is_stalled(lags: Iterable[int]) -> None:
    assert verdict([5] * STEPS, lags) is Verdict.STALLED


def test_a_position_that_does_not_move_while_its_lag_falls_is_well() -> None:
    assert verdict([5] * STEPS, range(30, 30 - STEPS, -1)) is Verdict.WELL


def test_a_lag_that_never_falls_is_too_slow() -> None:
    assert verdict(range(STEPS), range(9, 9 + STEPS)) is Verdict.SLOW
    assert verdict([5] * (STEPS - 1) + [6], [9] * (STEPS - 1) + [10]) is Verdict.SLOW


def test_a_lag_that_falls_once_is_well_however_great_it_is() -> None:
    lags = [10**9 + number for number in range(STEPS)]
    lags[4] -= 2
    assert verdict(range(STEPS), lags) is Verdict.WELL


def test_a_lag_that_stays_as_it_is_is_what_is_on_its_way() -> None:
    assert verdict(range(STEPS), [9] * STEPS) is Verdict.WELL


def test_who_was_not_seen_for_longer_than_the_window_has_stopped() -> None:
    assert verdict(range(STEPS), [9] * STEPS, later=WINDOW + 1) is Verdict.STOPPED
    assert verdict([5] * STEPS, [9] * STEPS, later=WINDOW + 1) is Verdict.STOPPED
    assert verdict(range(STEPS), [9] * STEPS, later=WINDOW) is Verdict.WELL
    assert verdict([5], [9], later=WINDOW + 1) is Verdict.STOPPED


def test_who_was_not_seen_and_had_nothing_left_has_not_stopped() -> None:
    assert verdict(range(STEPS), [9] * (STEPS - 1) + [0], later=10 * WINDOW) is Verdict.WELL


def test_less_than_a_window_is_well() -> None:
    assert verdict([5] * (STEPS - 1), [9] * (STEPS - 1)) is Verdict.WELL
    assert verdict(range(STEPS - 1), range(9, 9 + STEPS)) is Verdict.WELL


class TestWindows:
    """What is kept of what was seen."""

    def noted(self, *seen: Observation, alive: bool = True) -> Windows:
        windows = Windows()
        for one in seen:
            windows.note("3", one, is_alive=alive)
        return windows

    def test_a_part_that_stalls_is_named_with_its_time(self) -> None:
        windows = self.noted(*window([4, *[5] * STEPS], range(9, 99)))
        windows.note("4", Observation(START + EVERY, 7, 2))
        now = START + STEPS * EVERY
        assert windows.progress(now) == Progress(Verdict.STALLED, ("3",), START + EVERY)

    def test_without_parts_none_is_named(self) -> None:
        windows = Windows()
        for one in window([5] * STEPS, range(9, 99)):
            windows.note("", one)
        assert windows.progress(START + WINDOW) == Progress(Verdict.STALLED, (), START)

    def test_the_worst_part_counts(self) -> None:
        windows = self.noted(*window([5] * STEPS, range(9, 99)))
        for one in window([5] * STEPS * 2, range(9, 99)):
            windows.note("4", one, is_alive=False)
            windows.note("5", one)
            windows.note("3", one)
        assert windows.progress(START + 2 * WINDOW) == Progress(Verdict.STOPPED, ("4",), START)

    def test_it_moves_on_and_keeps_no_more_than_it_needs(self) -> None:
        windows = self.noted(*window([*[5] * 50, *range(6, 60)], [9] * 104))
        assert windows.progress(START + 103 * EVERY) == Progress(Verdict.WELL)
        assert len(windows._windows["3"].seen) == STEPS

    def test_nothing_is_kept_without_lag(self) -> None:
        windows = self.noted(*window([5] * STEPS, [9] * (STEPS - 1) + [0]))
        assert not windows._windows

    def test_a_position_that_goes_back_begins_anew(self) -> None:
        windows = self.noted(*window([5] * (STEPS - 1) + [4], [9] * STEPS))
        assert windows._windows["3"].seen == (Observation(START + WINDOW, 4, 9),)

    def test_what_was_not_looked_at_for_a_while_begins_anew(self) -> None:
        windows = self.noted(*window([5] * STEPS, [9] * STEPS), Observation(START + WINDOW + 4 * MINUTE, 5, 9))
        assert windows.progress(START + WINDOW + 4 * MINUTE) == Progress(Verdict.WELL)

    def test_a_clock_that_was_put_back_begins_anew(self) -> None:
        windows = self.noted(*window([5] * STEPS, [9] * STEPS), Observation(START - MINUTE, 5, 9))
        assert windows.progress(START - MINUTE) == Progress(Verdict.WELL)

    def test_who_comes_back_has_not_stopped(self) -> None:
        windows = self.noted(*window([5] * STEPS * 2, [9] * STEPS * 2), alive=False)
        now = START + 2 * STEPS * EVERY
        assert windows.progress(now).verdict is Verdict.STOPPED
        windows.note("3", Observation(now, 5, 9))
        assert windows.progress(now).verdict is not Verdict.STOPPED

    def test_who_moved_was_there(self) -> None:
        windows = self.noted(*window(range(STEPS * 2), range(9, 99)), alive=False)
        assert windows.progress(START + 2 * WINDOW).verdict is Verdict.SLOW

    def test_a_look_is_due_now_and_then(self) -> None:
        windows = self.noted(Observation(START, 5, 9))
        assert Windows().is_due(START)
        assert not windows.is_due(START + EVERY - 1)
        assert windows.is_due(START + EVERY)
        assert windows.is_due(START - 1)

    def test_parts_that_are_gone_are_forgotten(self) -> None:
        windows = self.noted(Observation(START, 5, 9))
        windows.note("4", Observation(START, 5, 9))
        windows.forget(but=["4"])
        assert list(windows._windows) == ["4"]


def test_of_several_transports_the_worst_counts() -> None:
    one, two = ("c", "one"), ("c", "two")
    stalled, stopped, well = Progress(Verdict.STALLED), Progress(Verdict.STOPPED), Progress(Verdict.WELL)
    assert worst([{one: stalled, two: well}, {one: stopped}, {two: well}]) == {one: stopped, two: well}
