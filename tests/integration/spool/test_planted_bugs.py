"""A checker is worth something once it caught bugs that were put there: each of these must be found."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import apsw
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from bus.ports.spool import NewRecord
from bus.spool import AsyncSpool, BlockingSpool, Options, engine
from bus.spool.driver import Driver
from bus.spool.file import Contents, CursorRow, SpoolFile
from tests.integration.spool import test_restart
from tests.integration.spool.history import History, drain, record
from tests.integration.spool.test_power_cut_simulated import blocking, check, concurrent, sweep
from tests.stateful.test_spool_machine import SpoolMachine


class NeverSynced(SpoolFile):
    synchronous = "OFF"


class SyncedAtCheckpointsOnly(SpoolFile):
    synchronous = "NORMAL"


class EarlyDriver(Driver):
    def _cycle(self) -> None:
        entries = list(self.engine.gathered.entries)
        super()._cycle()
        for entry in entries:
            if entry.positions and not entry.waiter.done():
                entry.waiter.set_result(entry.positions)


class EarlyAnswer(AsyncSpool):
    """Answers when the rows are written, before the commit."""

    @classmethod
    async def open(cls, directory: Path, options: Options) -> Self:
        driver = await EarlyDriver.open(directory, options)
        return cls(driver, driver.engine.cursors.sections[""])


class HastySettle(AsyncSpool):
    """Says that acks are durable without waiting."""

    async def settle(self) -> None:
        self._driver.kick()


class DeafToErrors(BlockingSpool):
    """Takes a failed commit for a good one."""

    def _outside(self, call: Any) -> None:
        try:
            super()._outside(call)
        except apsw.IOError:
            self._engine.file.rollback()


@pytest.mark.parametrize(
    ("workload", "planted"),
    [
        (blocking, {"file_class": NeverSynced}),
        (concurrent, {"file_class": NeverSynced}),
        (blocking, {"file_class": SyncedAtCheckpointsOnly}),
        (concurrent, {"spool_class": EarlyAnswer}),
        (concurrent, {"spool_class": HastySettle}),
    ],
)
def test_power_cuts_catch(tmp_path: Path, workload: Any, planted: dict[str, Any]) -> None:
    for seed in range(20):
        if sweep(tmp_path, workload, seed=seed, step=11, settings=planted):
            return
    pytest.fail("the planted bug was not caught")


class ForgetfulOfHoles(SpoolFile):
    """Stores a consumer's place, but not what it holds below it."""

    def save_cursors(self, rows: Iterable[CursorRow]) -> None:
        super().save_cursors([row._replace(holes=[]) for row in rows])


class HurriedCursor(SpoolFile):
    """Stores a consumer's place as if what it holds were done, and more."""

    def save_cursors(self, rows: Iterable[CursorRow]) -> None:
        super().save_cursors([row._replace(next=row.next + 1) for row in rows])


class DeletesForOne(SpoolFile):
    """Deletes a neighbour with each run of acked records."""

    def delete(self, ranges: Iterable[tuple[int, int]]) -> None:
        super().delete([(first, last + 1) for first, last in ranges])


class DropsAcks(SpoolFile):
    """Never deletes."""

    def delete(self, ranges: Iterable[tuple[int, int]]) -> None:
        list(ranges)


@pytest.mark.parametrize("planted", [ForgetfulOfHoles, HurriedCursor, DeletesForOne, DropsAcks])
def test_the_model_catches(planted: type[SpoolFile]) -> None:
    class Planted(SpoolMachine):
        file_class = planted

    quick = settings(
        max_examples=300,
        stateful_step_count=40,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises((AssertionError, ExceptionGroup, KeyError, StopIteration)):
        run_state_machine_as_test(Planted, settings=quick)


def test_positions_used_again_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = SpoolFile.load

    def from_what_is_left(file: SpoolFile) -> Contents:
        contents = load(file)
        newest = {tally.lane: file.count(tally.lane << 40, (tally.lane + 1) << 40)[2] for tally in contents.tallies}
        tallies = [tally._replace(last=max(newest[tally.lane], tally.lane << 40)) for tally in contents.tallies]
        return contents._replace(tallies=tallies)

    monkeypatch.setattr(SpoolFile, "load", from_what_is_left)
    with pytest.raises(AssertionError):
        test_restart.test_positions_are_not_used_again_after_everything_left(tmp_path, clean=False)


def test_flipped_bytes_catch_a_missing_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BlockingSpool(tmp_path / "good") as spool:
        spool.append([record(number, 400) for number in range(9)])
    file = tmp_path / "good" / "spool.db"
    data = file.read_bytes()
    place = data.index(b"4:4.4.4.4.") + 100
    file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    with BlockingSpool(tmp_path / "good") as spool:
        assert sorted(drain(spool)) == [0, 1, 2, 3, 5, 6, 7, 8]
    monkeypatch.setattr(engine, "intact", lambda _: True)
    with BlockingSpool(tmp_path / "bad") as spool, pytest.raises(AssertionError, match="not what was appended"):
        drain(spool)


def test_the_history_catches_every_kind_of_wrong() -> None:
    history = History(tried=[[1, 2], [3], [4, 5]], stored={1, 2, 3}, acked={3}, settled={3})
    assert history.problems([1, 2]) == []
    assert history.problems([1, 2, 4, 5]) == []
    assert "lost" in history.problems([1])[0]
    assert "invented" in history.problems([1, 2, 9])[0]
    assert "settled" in history.problems([1, 2, 3])[0]
    assert "twice" in history.problems([1, 2, 2])[0]
    assert "part" in history.problems([1, 2, 4])[0]
    assert "damaged" in history.problems([1, 2], damaged=1)[0]


def test_the_check_of_a_directory_catches_a_loss(tmp_path: Path) -> None:
    with BlockingSpool(tmp_path) as spool:
        spool.append([NewRecord("a", record(1).payload, 1)])
    assert check(tmp_path, History(tried=[[1], [2]], stored={1, 2})) == ["lost [2]"]
