"""What the lake asks of its storage, on every kind of it: whole files, each name given once, what is gone is gone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pytest

from pipeline.lake.storage import Storage
from tests.harness.lake_places import LakePlace
from tests.servers.s3_fixtures import bucket, s3_server

__all__ = ["bucket", "s3_server"]

PATH = "_manifests/line/a.json"
WRITERS, ROUNDS = 8, 5
SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])


class StorageContract:
    @pytest.fixture
    def storage(self) -> Storage:
        raise NotImplementedError

    @pytest.mark.parametrize("put", [Storage.write, Storage.create])
    def test_what_is_put_is_there(self, storage: Storage, put: Callable[[Storage, str, bytes], object]) -> None:
        assert not storage.exists(PATH)
        put(storage, PATH, b"all of it")
        assert storage.exists(PATH)
        assert (storage.read(PATH), storage.size(PATH)) == (b"all of it", 9)
        assert storage.find("", "") == [PATH]
        assert storage.changed(PATH) > 0
        storage.settle([PATH])

    def test_a_file_that_is_replaced_has_the_new_content_alone(self, storage: Storage) -> None:
        storage.write(PATH, b"a long one")
        storage.write(PATH, b"new")
        assert storage.read(PATH) == b"new"
        assert storage.find("", "") == [PATH]

    def test_a_file_that_is_there_is_not_made_again(self, storage: Storage) -> None:
        assert storage.create(PATH, b"first")
        assert not storage.create(PATH, b"second")
        assert storage.read(PATH) == b"first"
        assert storage.find("", "") == [PATH]

    def test_folders_and_what_is_below_them_are_listed_in_order(self, storage: Storage) -> None:
        for path in ("events/line/b-1/x.parquet", "events/line/a-1/y.parquet", "events/line/a-1/z.crc", "events/w.txt"):
            storage.write(path, b"x")
        assert storage.folders("events") == ["events/line"]
        assert storage.folders("events/line") == ["events/line/a-1", "events/line/b-1"]
        assert storage.find("events", ".parquet") == ["events/line/a-1/y.parquet", "events/line/b-1/x.parquet"]
        assert {"events/line/a-1/y.parquet", "events/line/a-1/z.crc"} <= set(storage.below("events/line"))

    def test_what_is_not_there_is_told_so(self, storage: Storage) -> None:
        assert (storage.find("nowhere", ""), storage.folders("nowhere"), storage.below("nowhere")) == ([], [], [])
        assert (storage.exists("nowhere"), storage.changed("nowhere")) == (False, 0)
        storage.remove("nowhere")
        with pytest.raises(FileNotFoundError):
            storage.read(PATH)
        with pytest.raises(FileNotFoundError):
            storage.settle([PATH])

    def test_a_file_is_removed_and_a_folder_with_all_below_it(self, storage: Storage) -> None:
        kept = "events/line/b-1/x.parquet"
        for path in (kept, "events/line/a-1/x.parquet", "events/line/a-1/p=1/y.parquet", PATH):
            storage.write(path, b"x")
        storage.remove(PATH)
        storage.remove("events/line/a-1")
        assert storage.find("", "") == [kept]
        assert storage.folders("events/line") == ["events/line/b-1"]

    def test_rows_are_written_joined_and_read(self, storage: Storage) -> None:
        storage.write_rows("t/l/a/rows.parquet", [{"id": "1", "n": 1}, {"id": "2", "n": None}], SCHEMA)
        storage.write_rows("t/l/b/rows.parquet", [{"id": "3"}], pa.schema([("id", pa.string())]))
        storage.join_rows(["t/l/a/rows.parquet", "t/l/b/rows.parquet"], "t/l/c/rows.parquet", SCHEMA)
        assert list(storage.rows("t/l/c/rows.parquet")) == [
            {"id": "1", "n": 1},
            {"id": "2", "n": None},
            {"id": "3", "n": None},
        ]
        assert storage.footer("t/l/c/rows.parquet").num_rows == 3
        storage.write("t/l/d/rows.parquet", storage.read("t/l/c/rows.parquet"))
        assert storage.sha256("t/l/c/rows.parquet") == storage.sha256("t/l/d/rows.parquet")

    def test_it_can_be_reached(self, storage: Storage) -> None:
        storage.check()


class OneWins(StorageContract):
    """Where of many who make a file exactly one does."""

    def test_of_many_who_make_a_file_at_once_one_does_and_it_is_whole(self, storage: Storage) -> None:
        contents = [bytes([number]) * 100_000 for number in range(WRITERS)]
        together = threading.Barrier(WRITERS)

        def made(path: str, content: bytes) -> bool:
            together.wait(10)
            return storage.create(path, content)

        with ThreadPoolExecutor(WRITERS) as pool:
            for number in range(ROUNDS):
                path = f"_manifests/line/{number}.json"
                won = list(pool.map(made, [path] * WRITERS, contents))
                assert won.count(True) == 1
                assert storage.read(path) == contents[won.index(True)]
        assert len(storage.find("", "")) == ROUNDS


class TestLocalFolder(OneWins):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return Storage(str(tmp_path / "lake"))


class TestLocalUri(OneWins):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return Storage(f"file://{tmp_path}/lake")


class TestAnotherMachinesFiles(StorageContract):
    """A file system that only has renames, as HDFS."""

    @pytest.fixture
    def storage(self, monkeypatch: pytest.MonkeyPatch) -> Storage:
        monkeypatch.setattr("pipeline.lake.storage._SCHEMES", ("mock",))
        storage = Storage("mock:///lake")
        assert not isinstance(storage._arrow, arrow_fs.LocalFileSystem)
        return storage


@pytest.mark.server
class TestObjectStore(OneWins):
    @pytest.fixture
    def storage(self, bucket: LakePlace) -> Storage:
        return Storage(bucket.name)
