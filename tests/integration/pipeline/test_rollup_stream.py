import errno
import os
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from pipeline.errors import JobFailed
from pipeline.jobs.batch import Batch
from pipeline.jobs.rollup import Plan, rebuild, start
from pipeline.lake.batches import READ_LINE, batch_name
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import BLOCKS, EVENTS, PROGRESS, QUALITY
from pipeline.sources.lines import from_files
from tests.harness.rollups import assert_agrees, read_rollups, read_side
from tests.harness.spark import CORES, reaching_buckets
from tests.harness.trace_lines import block, settled
from tests.harness.trace_traffic import START, write_traffic

SMALL = 0.001  # MiB: a file a batch


def run(spark, folder: Path, root: Path | str, batch: float = 256) -> Lake:
    lake = Lake(Storage(f"{root}/lake"))
    start(
        spark,
        lake,
        from_files(spark, str(folder), batch=batch),
        Plan(f"{root}/checkpoint", every=0, partitions=CORES),
    ).wait()
    return lake


def put(path: Path, *lines: str, arrived: int = START) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(lines), "utf-8")
    os.utime(path, (arrived / 1000, arrived / 1000))


@pytest.fixture(scope="module")
def rolled_up(spark, tmp_path_factory):
    """Roll traffic up in several batches; the first stream of a session takes Java long."""
    folder = tmp_path_factory.mktemp("rolled-up")
    traffic = write_traffic(folder / "events", 4_000, files=2)
    return traffic, run(spark, folder / "events", folder, batch=0.4)


def test_rollups_agree_with_a_count_made_by_hand(spark, rolled_up):
    traffic, lake = rolled_up
    assert len(lake.manifests(READ_LINE)) > 1
    assert traffic.repeated
    assert_agrees(read_rollups(spark, lake), traffic)


def test_they_agree_in_a_bucket(spark, tmp_path, bucket):
    traffic = write_traffic(tmp_path / "events", 200, files=1, per_block=20)
    with reaching_buckets(spark):
        assert_agrees(read_rollups(spark, run(spark, tmp_path / "events", bucket.name)), traffic)


def test_what_does_not_count_is_kept_aside(spark, rolled_up):
    traffic, lake = rolled_up
    assert Counter(verdict for _, _, _, verdict, _ in read_side(spark, lake)) == traffic.side


def test_a_block_that_comes_again_in_a_later_batch_counts_once(spark, tmp_path):
    line = block([settled(START)], emitter="e", seq=1, at=START)
    put(tmp_path / "events" / "1.jsonl", line)
    run(spark, tmp_path / "events", tmp_path)
    put(tmp_path / "events" / "2.jsonl", line, block([settled(START)], emitter="e", seq=2))
    lake = run(spark, tmp_path / "events", tmp_path)
    assert [row.seq for row in lake.read(spark, BLOCKS, line=READ_LINE).orderBy("seq").collect()] == [1, 2]


@pytest.mark.proof
def test_a_batch_whose_newest_commit_entry_is_gone_is_replayed_without_effect(spark, tmp_path):
    put(tmp_path / "events" / "1.jsonl", block([settled(START)], seq=1))
    before = run(spark, tmp_path / "events", tmp_path).manifests()
    newest = max((tmp_path / "checkpoint" / READ_LINE / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink()
    assert run(spark, tmp_path / "events", tmp_path).manifests() == before
    assert newest.exists()


@pytest.mark.proof
def test_files_staged_by_a_run_that_died_do_not_count(spark, tmp_path):
    put(tmp_path / "events" / "1.jsonl", block([settled(START)], seq=1))
    lake = Lake(Storage(str(tmp_path / "lake")))
    left = lake.begin(READ_LINE, f"{0:012d}")
    left.stage(
        EVENTS,
        spark.createDataFrame([("e", 1)], "emitter string, seq bigint").select(
            *[
                F.lit(None).cast(f.dataType).alias(f.name) if f.name not in {"emitter", "seq"} else F.col(f.name)
                for f in EVENTS.schema.fields
            ]
        ),
    )
    assert run(spark, tmp_path / "events", tmp_path).read(spark, EVENTS).count() == 1


@pytest.mark.proof
def test_rollups_are_built_again_from_what_was_read(spark, tmp_path):
    traffic = write_traffic(tmp_path / "events", 2_000, files=2)
    lake = run(spark, tmp_path / "events", tmp_path, batch=SMALL)
    lake.storage.remove("_manifests/rollup-v1")
    lake.storage.remove("rollups")
    assert read_rollups(spark, lake) == {}
    assert rebuild(spark, lake) == 2
    assert_agrees(read_rollups(spark, lake), traffic)


@pytest.mark.proof
def test_the_stream_tells_of_itself_and_of_what_it_read(spark, tmp_path):
    put(tmp_path / "events" / "1.jsonl", block([settled(START), settled(START, code=500)], seq=1))
    run(spark, tmp_path / "events", tmp_path)
    put(tmp_path / "events" / "2.jsonl", block([settled(START)], seq=2))
    lake = run(spark, tmp_path / "events", tmp_path)
    broken = {row.check: row.broken for row in lake.read(spark, QUALITY, line=READ_LINE).where("batch = 0").collect()}
    assert broken.pop("a delivered post has a 2xx") == 1
    assert set(broken.values()) == {0}


@pytest.mark.proof
def test_what_spark_says_of_a_batch_is_written_with_a_later_one(spark, tmp_path):
    for place in (1, 2):
        put(tmp_path / "events" / f"{place}.jsonl", block([settled(START)], seq=place), arrived=START + place)
    run(spark, tmp_path / "events", tmp_path, batch=SMALL / 10)
    put(tmp_path / "events" / "3.jsonl", block([settled(START)], seq=3))
    rows = run(spark, tmp_path / "events", tmp_path).read(spark, PROGRESS, line=READ_LINE).orderBy("batch").collect()
    assert [(row.batch, row.rows, row.dropped_by_watermark) for row in rows] == [(0, 1, 0), (1, 1, 0)]
    assert all(row.freshness_max_ms > 0 and row.state_rows == row.batch + 1 for row in rows)


@pytest.mark.proof
def test_another_checkpoint_does_not_take_a_lakes_batches_for_its_own(spark, tmp_path):
    put(tmp_path / "events" / "1.jsonl", block([settled(START)], seq=1))
    before = run(spark, tmp_path / "events", tmp_path).manifests()
    put(tmp_path / "others" / "1.jsonl", block([settled(START)], emitter="other", seq=1))
    plan = Plan(str(tmp_path / "another"), every=0, partitions=CORES)
    lake = Lake(Storage(str(tmp_path / "lake")))
    with pytest.raises(JobFailed, match="not the one that the lake was written with"):
        start(spark, lake, from_files(spark, str(tmp_path / "others")), plan).wait()
    assert lake.manifests() == before


def test_a_batch_that_another_process_published_meanwhile_stops_the_stream(spark, tmp_path):
    for place in (1, 2):
        put(tmp_path / "events" / f"{place}.jsonl", block([settled(START)], seq=place), arrived=START + place)
    lake, lines = Lake(Storage(str(tmp_path / "lake"))), from_files(spark, str(tmp_path / "events"), batch=SMALL / 10)

    def beside(batch: Batch) -> None:
        commit = lake.begin(READ_LINE, batch_name(batch.number + 1))
        assert commit is not None
        lake.publish(commit)

    plan = Plan(str(tmp_path / "checkpoint"), every=0, partitions=CORES)
    with pytest.raises(JobFailed, match="batch 1 was published by another process"):
        start(spark, lake, lines, plan, done=beside).wait()


@pytest.mark.proof
def test_events_that_spark_put_elsewhere_are_not_taken_for_none(spark, tmp_path):
    class Elsewhere(Storage):
        def url(self, path: str) -> str:
            return f"{tmp_path}/elsewhere/{path}"

    put(tmp_path / "events" / "1.jsonl", block([settled(START)], seq=1))
    lake, lines = Lake(Elsewhere(str(tmp_path / "lake"))), from_files(spark, str(tmp_path / "events"))
    plan = Plan(str(tmp_path / "checkpoint"), every=0, partitions=CORES)
    with pytest.raises(JobFailed, match="wrote 1 events of batch 0, and the lake has 0"):
        start(spark, lake, lines, plan).wait()
    assert lake.manifests() == []


@pytest.mark.proof
def test_what_keeps_a_batch_from_being_published_is_told_as_it_is(spark, tmp_path):
    put(tmp_path / "events" / "1.jsonl", block([settled(START)], seq=1))

    def full(_: Batch) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    lake, lines = Lake(Storage(str(tmp_path / "lake"))), from_files(spark, str(tmp_path / "events"))
    with pytest.raises(OSError, match="No space left on device"):
        start(spark, lake, lines, Plan(str(tmp_path / "checkpoint"), every=0, partitions=CORES), done=full).wait()


@pytest.mark.proof
def test_lines_that_spark_leaves_out_after_a_clock_went_back_stop_the_stream(spark, tmp_path):
    put(tmp_path / "events" / "1.jsonl", block([settled(START)], seq=1))
    run(spark, tmp_path / "events", tmp_path)
    tomorrow = int(time.time() * 1000) + 86_400_000
    for note in (tmp_path / "checkpoint" / READ_LINE).glob("*/0"):
        if note.parent.name in {"offsets", "commits"}:
            note.write_text(re.sub(r'(atermarkMs":)[0-9]+', rf"\g<1>{tomorrow}", note.read_text()))
            note.with_name(f".{note.name}.crc").unlink()
    put(tmp_path / "events" / "2.jsonl", block([settled(START)], seq=2))
    with pytest.raises(JobFailed, match="Spark left out 1 lines"):
        run(spark, tmp_path / "events", tmp_path)


@pytest.mark.parametrize("what", ["empty", "unclosed"])
def test_a_folder_without_closed_files_is_no_fault(spark, tmp_path, what):
    (tmp_path / "events").mkdir()
    if what == "unclosed":
        put(tmp_path / "events" / "1.open", "half a li")
    assert run(spark, tmp_path / "events", tmp_path).manifests() == []
