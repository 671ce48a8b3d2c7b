"""Queued, present and past runs: written before anything begins, so that a killed process continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.pipelines import MOST_RUNS, MOST_TEXT, Job, Verdict
from bus.testing.clock import ManualClock
from pipeline.errors import JobFailed
from pipeline.lake.storage import Storage
from pipeline.serving.runs import PATH, Outcome, QueuedRun, RunBook

DONE = Outcome(Verdict.DONE, {"commits": 2})


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def book(storage: Storage) -> RunBook:
    return RunBook(storage, ManualClock())


def jobs(found: RunBook) -> list[str]:
    return [each.job for each in found.waiting()]


def test_what_waits_runs_in_its_order_and_once(storage: Storage) -> None:
    kept = book(storage)
    assert kept.begin() is None
    for job in (Job.JUDGE, Job.RECONCILE, Job.JUDGE):
        kept.want(QueuedRun(job=job))
    assert jobs(kept) == ["judge", "reconcile"]
    first, second = kept.begin(), kept.begin()
    assert first is not None
    assert second is not None
    assert [(run.number, run.job) for run in (first, second)] == [(1, "judge"), (2, "reconcile")]
    assert kept.begin() is None
    ended = kept.end(first, DONE)
    assert (ended.verdict, ended.figures, ended.ended_at is not None) == (Verdict.DONE, {"commits": 2}, True)
    assert [(run.number, run.verdict) for run in kept.runs()] == [(2, Verdict.RUNNING), (1, Verdict.DONE)]


def test_a_wish_is_fulfilled_by_what_waits_already(storage: Storage) -> None:
    kept = book(storage)
    kept.want(QueuedRun(job=Job.JUDGE))
    kept.want(QueuedRun(job=Job.JUDGE, by="ann", wish="w-1"))
    kept.want(QueuedRun(job=Job.JUDGE))
    assert kept.waiting() == (QueuedRun(job=Job.JUDGE, by="ann", wish="w-1"),)
    run = kept.begin()
    assert run is not None
    assert (run.by, run.wish) == ("ann", "w-1")


def test_what_a_kill_broke_off_goes_on_once(storage: Storage) -> None:
    kept = book(storage)
    kept.want(QueuedRun(job=Job.RECONCILE, by="ann", wish="w-1"))
    kept.want(QueuedRun(job=Job.COMPACT))
    kept.begin()
    after = book(storage)
    assert [(run.number, run.verdict, run.ended_at) for run in after.runs()] == [(1, Verdict.BROKEN, None)]
    assert jobs(after) == ["reconcile", "compact"]
    again = after.begin()
    assert again is not None
    assert (again.job, again.by, again.wish) == (Job.RECONCILE, "ann", "")
    third = book(storage)  # it may be what ended the process
    assert [run.verdict for run in third.runs()] == [Verdict.BROKEN, Verdict.BROKEN]
    assert jobs(third) == ["compact"]
    run = third.begin()
    assert run is not None
    third.end(run, DONE)
    assert jobs(book(storage)) == []


def test_what_an_orderly_end_broke_off_waits_however_often(storage: Storage) -> None:
    kept = book(storage)
    kept.want(QueuedRun(job=Job.ARCHIVE, by="ann", wish="w-1"))
    for _ in range(3):
        assert kept.begin() is not None
        kept.put_off()
        kept = book(storage)
        assert [(each.job, each.by) for each in kept.waiting()] == [(Job.ARCHIVE, "ann")]
    assert {run.verdict for run in kept.runs()} == {Verdict.BROKEN}


def test_long_errors_are_cut_to_what_the_bus_takes(storage: Storage) -> None:
    kept = book(storage)
    kept.want(QueuedRun(job=Job.COMPACT))
    run = kept.begin()
    assert run is not None
    ended = kept.end(run, Outcome(Verdict.FAILED, {}, "x" * 10_000, "y" * 10_000))
    assert (len(ended.error), len(ended.hint)) == (MOST_TEXT, MOST_TEXT)


def test_what_cannot_be_written_has_not_happened(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = book(storage)
    kept.want(QueuedRun(job=Job.JUDGE))

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(storage, "write", full)
        for change in (kept.begin, lambda: kept.want(QueuedRun(job=Job.COMPACT))):
            with pytest.raises(OSError, match="No space"):
                change()
    assert (jobs(kept), kept.runs()) == (["judge"], ())
    assert jobs(book(storage)) == ["judge"]


def test_a_book_that_cannot_be_read_says_what_to_do(storage: Storage) -> None:
    storage.write(PATH, b'{"runs": [')
    with pytest.raises(JobFailed) as refused:
        book(storage)
    assert PATH in str(refused.value)
    assert "remove this file" in str(refused.value.hint)


def test_the_latest_of_each_job_are_kept_and_no_job_pushes_out_another(storage: Storage) -> None:
    kept = book(storage)
    kept.want(QueuedRun(job=Job.BASELINE))
    for _ in range(MOST_RUNS):
        kept.want(QueuedRun(job=Job.RECONCILE))
        run = kept.begin()
        assert run is not None
        kept.end(run, DONE)
    assert len(kept.runs()) <= MOST_RUNS
    assert kept.last(Job.BASELINE) is not None
    assert kept.last(Job.ARCHIVE) is None
    assert [run.number for run in kept.runs()][:2] == [MOST_RUNS, MOST_RUNS - 1]


STEPS = st.lists(st.sampled_from(["kill", "begin", "end", *Job]), max_size=40)


@given(steps=STEPS)
def test_nothing_that_was_wanted_is_forgotten_and_numbers_never_come_twice(
    steps: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    storage = Storage(str(tmp_path_factory.mktemp("book")))
    kept, at_work, numbers = book(storage), None, []
    for step in steps:
        before = set(jobs(kept))
        if step == "kill":
            kept, at_work = book(storage), None
            assert before <= set(jobs(kept))
            assert Verdict.RUNNING not in {run.verdict for run in kept.runs()}
        elif step == "begin" and at_work is None:
            at_work = kept.begin()
            numbers += [at_work.number] if at_work is not None else []
        elif step == "end" and at_work is not None:
            kept.end(at_work, DONE)
            at_work = None
        elif step in list(Job):
            kept.want(QueuedRun(job=Job(step)))
            assert step in jobs(kept)
        assert kept.runs() == tuple(sorted(kept.runs(), key=lambda run: -run.number))
        assert len(jobs(kept)) == len(set(jobs(kept)))
    assert numbers == sorted(set(numbers))
    assert msgspec.json.decode(storage.read(PATH))["last"] == max(numbers, default=0) if numbers else True
