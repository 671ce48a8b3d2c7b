import json
import shutil

import pytest
from pyarrow import parquet

from bus.testing.clock import ManualClock
from pipeline.commands.compacting import run
from pipeline.errors import JobFailed
from pipeline.jobs.compact import HOUR_MS, due, join, join_all, vacuum
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE, batches_of
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS
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


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("made") / "lake", BATCHES, minutes=5)


@pytest.fixture
def lake(made, tmp_path):
    shutil.copytree(made.storage.root, tmp_path / "lake")
    return Lake(Storage(str(tmp_path / "lake")), ManualClock(made.manifests()[-1].published))


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


def damage(lake, line, number, table):
    file = lake.manifests(line)[number].tables[table][0]
    content = lake.storage.read(file.path)
    lake.storage.write(file.path, content[:-1] + b"?")
    return file


def files_in(lake):
    return set(lake.storage.find("", ".parquet"))


@pytest.mark.parametrize(("line", "table"), [(READ_LINE, "events"), (ROLLUP_LINE, "rollups")])
def test_of_an_hour_with_a_damaged_file_neither_line_is_changed(lake, line, table):
    damage(lake, line, 3, table)
    before = files_in(lake)
    with pytest.raises(JobFailed, match=f"is not the file that {line} wrote"):
        compact(lake)
    assert len(lake.manifests(READ_LINE)) == len(lake.manifests(ROLLUP_LINE)) == BATCHES
    assert lake.names(READ_LINE) == lake.names(ROLLUP_LINE)
    assert files_in(lake) == before


def test_a_file_that_is_gone_is_damage_as_well(lake):
    lake.storage.remove(lake.manifests(READ_LINE)[3].tables["events"][0].path)
    with pytest.raises(JobFailed, match=f"is not the file that {READ_LINE} wrote"):
        compact(lake)
    assert len(lake.manifests(ROLLUP_LINE)) == BATCHES


def test_hours_behind_a_damaged_one_come_together_and_what_was_replaced_goes(lake):
    damage(lake, READ_LINE, 3, "events")
    done, left = join_all(lake, due(lake, LATER, kept=KEPT))
    assert [(each.first, each.last) for each in done] == HOURS[1:]
    assert [(each.first, each.last) for each in left] == HOURS[:1]
    assert "is not the file that read-v1 wrote" in left[0].why
    assert left[0].hour == START // HOUR_MS * HOUR_MS
    assert len(lake.manifests(READ_LINE)) == len(lake.manifests(ROLLUP_LINE)) == BATCHES - 12 + 1


def test_an_hour_for_which_the_disk_is_too_full_is_left(lake, monkeypatch):
    join_rows, calls = Storage.join_rows, []

    def full_once(self, paths, into, schema):
        calls.append(into)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        join_rows(self, paths, into, schema)

    before = files_in(lake)
    monkeypatch.setattr(Storage, "join_rows", full_once)
    done, left = join_all(lake, due(lake, LATER, kept=KEPT))
    assert [(each.first, each.last) for each in done] == HOURS[1:]
    assert [each.why for each in left] == ["no space left on device"]
    new = {file.path for each in lake.manifests() if each.replaces for files in each.tables.values() for file in files}
    assert files_in(lake) == before | new


def test_the_command_does_what_it_can_and_ends_with_what_was_left(tmp_path, capsys):
    lake = make_lake(tmp_path / "long", 130, minutes=5)
    before = sum(file.rows for file in lake.files(EVENTS))
    damage(lake, READ_LINE, 3, "events")
    with pytest.raises(JobFailed) as failed:
        run(lake.storage.root, older_than=1, grace=0, as_json=True)
    assert "1 hour was left as it is" in str(failed.value)
    assert "2025-11-21T04:00:00.000Z, batches 0 to 3" in str(failed.value)
    told = json.loads(capsys.readouterr().out)
    assert (told["commits"], told["batches"], told["removed"]["commits"]) == (2, 24, 48)
    assert [(each["first"], each["last"]) for each in told["left"]] == [(0, 3)]
    assert "is not the file that read-v1 wrote" in told["left"][0]["why"]
    assert sum(file.rows for file in lake.files(EVENTS)) == before


def test_of_two_beside_each_other_the_second_finds_it_done(lake):
    before = rows_of(lake)
    groups = due(lake, LATER, kept=KEPT)
    compact(lake)
    vacuum(lake, LATER)
    assert join_all(lake, groups) == ([], [])
    assert rows_of(lake) == before


def test_what_another_removes_while_it_is_put_together_is_not_left(lake, monkeypatch):
    before, stage = rows_of(lake), Storage.join_rows
    groups = due(lake, LATER, kept=KEPT)

    def late(self, paths, into, schema):
        monkeypatch.setattr(Storage, "join_rows", stage)
        compact(lake)
        vacuum(lake, LATER)
        stage(self, paths, into, schema)

    monkeypatch.setattr(Storage, "join_rows", late)
    assert join_all(lake, groups) == ([], [])
    assert rows_of(lake) == before


def batches(lake, line):
    return sorted(number for each in lake.manifests(line) for number in batches_of(each.name))


def compact_and_vacuum(lake):
    compact(lake)
    vacuum(lake, LATER)


@pytest.mark.parametrize("line", [READ_LINE, ROLLUP_LINE])
def test_what_goes_between_listing_and_reading_is_found_in_what_stands_for_it(lake, monkeypatch, line):
    read = Storage.read

    def late(self, path):
        monkeypatch.setattr(Storage, "read", read)
        compact_and_vacuum(lake)
        return read(self, path)

    monkeypatch.setattr(Storage, "read", late)
    assert batches(lake, line) == list(range(BATCHES))


def test_what_goes_in_the_middle_of_listing_is_found_in_what_stands_for_it(lake, monkeypatch):
    """A listing has names at one time and sees at another which of them are files."""
    find = Storage.find

    def late(self, folder, suffix):
        monkeypatch.setattr(Storage, "find", find)
        names = find(self, folder, suffix)
        compact_and_vacuum(lake)
        return [name for name in names if self.exists(name)]

    monkeypatch.setattr(Storage, "find", late)
    assert batches(lake, READ_LINE) == list(range(BATCHES))


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
