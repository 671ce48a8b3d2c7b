"""The lake's storage, of every kind: whole files, each name given once, deletions that last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as arrow_fs
import pytest

from bus.errors import ConfigurationError
from pipeline.lake.storage import Storage
from tests.harness.lake_places import LakePlace
from tests.harness.waiting import wait_until
from tests.servers.s3_fixtures import bucket, s3_server
from tests.servers.versitygw import S3Server

__all__ = ["bucket", "s3_server"]

PATH = "_manifests/line/a.json"
WRITERS, ROUNDS = 8, 5
AWAY_S = 4
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

    def test_many_are_read_at_once_but_for_those_that_are_gone(self, storage: Storage) -> None:
        paths = [f"_manifests/line/{number}.json" for number in range(40)]
        for path in paths[::2]:
            storage.write(path, path.encode())
        assert dict(storage.read_all(paths)) == {path: path.encode() for path in paths[::2]}
        assert list(storage.read_all([])) == []

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

    def test_a_server_that_is_away_for_a_while_is_waited_for(self, storage: Storage, s3_server: S3Server) -> None:
        storage.write(PATH, b"before")
        s3_server.kill()
        began = time.monotonic()
        with ThreadPoolExecutor() as pool:
            created = pool.submit(storage.create, "_manifests/line/b.json", b"meanwhile")
            read = [pool.submit(storage.read, PATH), pool.submit(storage.find, "_manifests", ".json")]
            wait_until(lambda: time.monotonic() > began + AWAY_S, within=60, what="some time has passed")
            assert not any(each.done() for each in (created, *read))
            s3_server.start()
            assert created.result(60)
            assert read[0].result(60) == b"before"
            assert PATH in read[1].result(60)

    def test_a_bucket_that_is_not_there_and_wrong_keys_are_told(
        self, bucket: LakePlace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(ConfigurationError, match="there is no bucket nobucket") as refused:
            Storage("s3a://nobucket/lake").check()
        assert "AWS_ENDPOINT_URL" in refused.value.hint
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
        with pytest.raises(ConfigurationError, match="cannot be reached"):
            Storage(bucket.name).check()
