"""The stream's small commits are put together beside it; whoever reads the lake sees no difference."""

import datetime as dt
from pathlib import Path

import pytest

from bus.testing.clock import ManualClock
from pipeline.errors import JobFailed
from pipeline.jobs.compact import HOUR_MS, due, join, vacuum
from pipeline.jobs.reconcile import Plan as ProofPlan
from pipeline.jobs.reconcile import reconciled
from pipeline.jobs.rollup import Plan, rebuild, start
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE, is_joined
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.sources.lines import from_files
from tests.harness.made_lake import rows_of
from tests.harness.rollups import assert_agrees, read_rollups, read_side
from tests.harness.spark import CORES
from tests.harness.trace_lines import accepted, settled, told
from tests.harness.trace_traffic import START, write_traffic

SMALL = 0.001  # MiB: a file a batch
KEPT = 2
HOUR = START // HOUR_MS * HOUR_MS
LATER = HOUR + 100 * HOUR_MS


class Hurrying(ManualClock):
    """Ten minutes pass from one commit to the next: the two commits of three batches are those of an hour."""

    def now(self) -> int:
        self.jump(HOUR_MS // 6)
        return super().now()


def stream(spark, folder: Path, root: Path):
    lake = Lake(Storage(str(root / "lake")), Hurrying(HOUR - 1))
    plan = Plan(str(root / "checkpoint"), every=0, partitions=CORES)
    return lake, start(spark, lake, from_files(spark, str(folder), batch=SMALL), plan)


def run(spark, folder: Path, root: Path) -> Lake:
    lake, running = stream(spark, folder, root)
    running.wait()
    return lake


def compact(lake: Lake) -> int:
    """Compact what there is, and give nobody time who still reads what is replaced."""
    beside = Lake(lake.storage, ManualClock(LATER))
    done = [join(beside, group) for group in due(beside, LATER, kept=KEPT)]
    vacuum(beside, LATER)
    return len(done)


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(microsecond=0)


def joined(lake: Lake, line: str) -> list[str]:
    return [name for name in lake.names(line) if is_joined(name)]


@pytest.mark.proof
def test_a_stream_that_is_compacted_all_the_while_comes_to_the_same(spark, tmp_path):
    traffic = write_traffic(tmp_path / "events", 4_000, files=8)
    lake, running = stream(spark, tmp_path / "events", tmp_path)
    done = 0
    while running.query.isActive:
        done += compact(lake)
    running.wait()
    assert done > 0
    assert_agrees(read_rollups(spark, lake), traffic)
    newest = max((tmp_path / "checkpoint" / READ_LINE / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()
    rows = rows_of(lake)
    run(spark, tmp_path / "events", tmp_path)
    assert rows_of(lake) == rows

    compact(lake)
    assert rebuild(spark, lake) == 0
    lake.storage.remove(f"_manifests/{ROLLUP_LINE}")
    assert rebuild(spark, lake) == len(lake.manifests(READ_LINE))
    assert joined(lake, ROLLUP_LINE) == joined(lake, READ_LINE) != []
    rollups, side = read_rollups(spark, lake), read_side(spark, lake)
    assert_agrees(rollups, traffic)
    assert len(side) == sum(traffic.side.values())

    # A checkpoint that begins anew would count again what is in the lake.
    rows = rows_of(lake)
    (tmp_path / "checkpoint").rename(tmp_path / "lost")
    with pytest.raises(JobFailed, match="not the one that the lake was written with"):
        run(spark, tmp_path / "events", tmp_path)
    assert rows_of(lake) == rows


@pytest.mark.proof
def test_a_proof_finds_no_news_in_what_was_put_together(spark, tmp_path):
    (tmp_path / "events").mkdir()
    for number in range(5):
        at = START + number * 1_000
        message = accepted(at)
        told_of = [message] if number == 3 else [message, settled(at + 5, id=message["id"])]
        line = told(told_of, seq=number + 1, at=at + 900)
        (tmp_path / "events" / f"{number}.jsonl").write_text(line, "utf-8")
    lake = run(spark, tmp_path / "events", tmp_path)
    with reconciled(spark, lake, ProofPlan(now(), complete=True)) as proof:
        assert proof.news > 0
    assert compact(lake) == 1
    with reconciled(spark, lake, ProofPlan(now(), complete=True)) as proof:
        assert proof.news == 0
        assert len(proof.emitters) == 1
