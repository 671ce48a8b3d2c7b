"""A name is published once: who comes second goes on with what is there."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import msgspec
import pytest

from bus.errors import ConfigurationError
from bus.testing.clock import ManualClock
from pipeline.jobs import archive, replay
from pipeline.jobs.archive import PartitionContents
from pipeline.jobs.replay import ReplaySelection
from pipeline.lake.lake import Commit, Lake
from pipeline.lake.manifest import decode_manifest, encode_manifest
from pipeline.lake.storage import Storage
from pipeline.schemas import MESSAGES, REPLAYS, SIDE

LINE = "line-v1"
ROW = {"arrived": dt.datetime(2026, 3, 2, tzinfo=dt.UTC), "emitter": "e"}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(Storage(str(tmp_path / "lake")), ManualClock(1_000))


def begun(lake: Lake, name: str = "one", line: str = LINE) -> Commit:
    commit = lake.begin(line, name)
    assert commit is not None
    return commit


def staged(lake: Lake, rows: int, name: str = "one") -> Commit:
    commit = begun(lake, name)
    commit.put(SIDE, [ROW] * rows)
    return commit


def data_of(lake: Lake) -> set[str]:
    return set(lake.storage.find("side", ".parquet"))


def test_who_publishes_second_gets_what_the_first_published(lake: Lake) -> None:
    first, second = staged(lake, 1), staged(lake, 2)
    published = lake.publish(first, facts={"who": "first"})
    assert lake.publish(second, facts={"who": "second"}) == published
    assert lake.manifests() == [published]
    assert lake.files(SIDE) == first.staged(SIDE)
    assert data_of(lake) == {file.path for file in first.staged(SIDE)}


def test_a_commit_that_is_published_again_keeps_its_files(lake: Lake) -> None:
    commit = staged(lake, 1)
    assert lake.publish(commit) == lake.publish(commit)
    assert data_of(lake) == {file.path for file in commit.staged(SIDE)}


def test_a_commit_cannot_stand_for_itself(lake: Lake) -> None:
    commit = staged(lake, 1)
    with pytest.raises(ValueError, match="itself"):
        lake.publish(commit, replaces=["one"])
    assert lake.manifests() == []


def test_a_commit_that_says_it_stands_for_itself_counts_and_stays(lake: Lake) -> None:
    published = lake.publish(staged(lake, 1))
    path = Path(lake.storage.url(lake.manifest_path(published)))
    path.write_bytes(encode_manifest(msgspec.structs.replace(published, replaces=("one",))))
    assert lake.manifests() == [decode_manifest(path.read_bytes())]
    assert lake.replaced(LINE, 2_000) == []


def test_of_two_archives_of_one_day_one_counts(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other publishes while this one reads back what it staged."""
    partition = archive.PartitionLabel(20_000, 30)
    found = PartitionContents(archive.Contents(1, 0, "0" * 30), 0, 0)
    monkeypatch.setattr(archive, "read_messages", lambda *_, **__: None)
    monkeypatch.setattr(archive, "_staged", lambda _spark, _lake, commit, _rows: commit.put(MESSAGES, [{"id": "a"}]))
    names = []

    def counted(_rows: object) -> PartitionContents:
        names.append(partition.name)
        if len(names) == 1:
            archive.write(None, lake, "store", partition, found)  # type: ignore[arg-type]
        return found

    monkeypatch.setattr(archive, "count", counted)
    mine = archive.write(None, lake, "store", partition, found)  # type: ignore[arg-type]
    assert len(names) == 2
    assert lake.manifests(archive.LINE) == [mine]
    assert sum(file.rows for file in lake.files(MESSAGES)) == 1


def test_of_two_selections_that_are_frozen_at_once_one_is_sent(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other is frozen while this one is written down."""
    theirs = begun(lake, "again-1", replay.LINE)
    theirs.put(REPLAYS, [{"id": "a"}])

    def froze(_spark: object, lake: Lake, commit: Commit, _asked: ReplaySelection, now: int) -> int:
        lake.publish(theirs, facts=ReplaySelection("true").facts() | {"frozen_at": 7, "selected": 1})
        commit.put(REPLAYS, [{"id": "a"}, {"id": str(now)}])
        return 2

    monkeypatch.setattr(replay, "_write", froze)
    found = replay.freeze(None, lake, "again-1", ReplaySelection("true"), 8)  # type: ignore[arg-type]
    assert (found.facts["frozen_at"], found.facts["selected"]) == (7, 1)


def test_another_selection_that_was_frozen_meanwhile_is_not_sent(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = begun(lake, "again-1", replay.LINE)

    def froze(_spark: object, lake: Lake, commit: Commit, _asked: ReplaySelection, _now: int) -> int:
        lake.publish(theirs, facts=ReplaySelection("false").facts() | {"frozen_at": 7, "selected": 0})
        commit.put(REPLAYS, [{"id": "a"}])
        return 1

    monkeypatch.setattr(replay, "_write", froze)
    with pytest.raises(ConfigurationError, match="was frozen with --where false; nothing was sent"):
        replay.freeze(None, lake, "again-1", ReplaySelection("true"), 8)  # type: ignore[arg-type]


def test_a_selection_that_is_refused_leaves_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_spark: object, _lake: Lake, commit: Commit, _asked: ReplaySelection, _now: int) -> int:
        commit.put(REPLAYS, [{"id": "a"}])
        raise ConfigurationError("no message was selected")

    monkeypatch.setattr(replay, "_write", refused)
    with pytest.raises(ConfigurationError, match="no message was selected"):
        replay.freeze(None, lake, "again-1", ReplaySelection("true"), 8)  # type: ignore[arg-type]
    assert lake.storage.find("", "") == []


def test_an_archive_of_what_changed_meanwhile_leaves_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    found = PartitionContents(archive.Contents(1, 0, "0" * 30), 0, 0)
    monkeypatch.setattr(archive, "read_messages", lambda *_, **__: None)
    monkeypatch.setattr(archive, "_staged", lambda _spark, _lake, commit, _rows: commit.put(MESSAGES, [{"id": "a"}]))
    monkeypatch.setattr(archive, "count", lambda _: found._replace(contents=archive.Contents(2, 0, "1" * 30)))
    label = archive.PartitionLabel(20_000, 30)
    assert archive.write(None, lake, "store", label, found) is None  # type: ignore[arg-type]
    assert lake.storage.find("", "") == []
