import pytest
from pyarrow import parquet

from pipeline.errors import JobFailed
from pipeline.jobs.compact import HOUR_MS, due, join, vacuum
from pipeline.jobs.rollup import READ_LINE, ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from tests.harness.made_lake import START, make_lake, rows_of

BATCHES = 30
KEPT = 5
FILES = 4
HOURS = [(0, 3), (4, 15)]  # the third one has batches that are kept
LATER = START + 24 * HOUR_MS


def numbers(groups):
    return [(int(group[0].name), int(group[-1].name)) for group in groups]


def compact(lake):
    return [join(lake, group) for group in due(lake, LATER, kept=KEPT)]


@pytest.fixture
def lake(tmp_path):
    return make_lake(tmp_path / "lake", BATCHES, minutes=5)


def test_hours_that_have_ended_come_together_and_rows_stay(lake):
    before = rows_of(lake)
    done = compact(lake)
    assert [(each.first, each.last) for each in done] == HOURS
    assert rows_of(lake) == before
    assert [(each.files_before, each.files) for each in done] == [(4 * FILES, FILES), (12 * FILES, FILES)]
    assert len(lake.manifests(READ_LINE)) == len(lake.manifests(ROLLUP_LINE)) == BATCHES - 16 + 2
    assert due(lake, LATER, kept=KEPT) == []


def test_neither_open_hours_nor_the_newest_batches_nor_what_is_not_rolled_up_is_touched(lake):
    assert due(lake, START) == []
    assert due(lake, LATER) == []
    assert numbers(due(lake, START + 2 * HOUR_MS, kept=KEPT)) == HOURS
    assert numbers(due(lake, START + HOUR_MS, kept=KEPT)) == HOURS[:1]
    lake.storage.remove(f"_manifests/{ROLLUP_LINE}/{5:012d}.json")
    assert numbers(due(lake, LATER, kept=KEPT)) == HOURS[:1]


def test_what_was_replaced_goes_after_its_time_and_nothing_else(lake, tmp_path):
    before = rows_of(lake)
    done = compact(lake)
    joined_at = [each.published for each in lake.manifests() if each.replaces]
    assert vacuum(lake, min(joined_at) - 1).commits == 0
    freed = vacuum(lake, max(joined_at))
    assert freed.commits == 2 * sum(each.last - each.first + 1 for each in done)
    assert freed.files == sum(each.files_before for each in done)
    assert rows_of(lake) == before
    left = {path.relative_to(tmp_path / "lake").as_posix() for path in (tmp_path / "lake").rglob("*.parquet")}
    assert left == {file.path for each in lake.manifests() for files in each.tables.values() for file in files}
    assert len(lake.names(READ_LINE)) == len(lake.manifests(READ_LINE))
    assert vacuum(lake, LATER).commits == 0


def test_cut_off_between_the_two_lines_it_is_run_again(lake, monkeypatch):
    before = rows_of(lake)
    publish = Lake.publish

    def fail(self, commit, **more):
        if commit.line == READ_LINE:
            raise OSError("cut off")
        return publish(self, commit, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "publish", fail)
        with pytest.raises(OSError, match="cut off"):
            compact(lake)
    assert rows_of(lake) == before
    assert len(lake.manifests(ROLLUP_LINE)) < len(lake.manifests(READ_LINE)) == BATCHES
    compact(lake)
    assert rows_of(lake) == before
    assert len(lake.manifests(ROLLUP_LINE)) == len(lake.manifests(READ_LINE)) < BATCHES


def test_a_damaged_file_is_left_and_told(lake):
    file = lake.manifests(READ_LINE)[3].tables["events"][0]
    content = lake.storage.read(file.path)
    lake.storage.write(file.path, content[:-1] + b"?")
    with pytest.raises(JobFailed, match="is not the file that read-v1 wrote"):
        compact(lake)
    assert len(lake.manifests(READ_LINE)) == BATCHES


def test_a_column_that_older_files_lack_is_null(lake):
    file = lake.manifests(READ_LINE)[0].tables["progress"][0]
    path = lake.storage.url(file.path)
    parquet.write_table(parquet.read_table(path).drop_columns(["freshness_p50_ms"]), path)
    storage = Storage(lake.storage.root)
    schema = parquet.read_schema(lake.storage.url(lake.manifests(READ_LINE)[1].tables["progress"][0].path))
    storage.join_rows([file.path, lake.manifests(READ_LINE)[1].tables["progress"][0].path], "joined.parquet", schema)
    joined = parquet.read_table(lake.storage.url("joined.parquet"))
    assert joined.num_rows == 10
    assert joined["freshness_p50_ms"].null_count == 10
