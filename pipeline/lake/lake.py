"""The lake's tables: files are staged, then one manifest makes them part of all tables of a commit at once."""

from __future__ import annotations

import datetime as dt
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from bus.clock import SystemClock
from bus.ports.clock import Clock
from pipeline.lake.manifest import DataFile, Manifest, decode_manifest, encode_manifest
from pipeline.lake.storage import Storage
from pipeline.schemas import Table

_MANIFESTS: Final = "_manifests"


class Commit:
    """The files that one commit stages; no reader sees them before ``Lake.publish``.

    Tables may be staged concurrently. When one fails, all that was staged is removed once no other is being staged.
    """

    def __init__(self, lake: Lake, line: str, name: str) -> None:
        self._lake = lake
        self._folder = f"{line}/{name}-{uuid.uuid4().hex[:8]}"
        self.line = line
        self.name = name
        self._tables: dict[str, list[DataFile]] = {}
        self._lock = threading.Lock()
        self._under_way = 0
        self._folders: set[str] = set()
        self._failed = False

    def stage(
        self, table: Table, rows: DataFrame, *, files: int | None = None, by: Mapping[str, Column] | None = None
    ) -> None:
        """Write rows of a table, once.

        Parameters
        ----------
        files
            How many to write; None for as many as Spark has partitions.
        by
            The folders to partition the files by: their names, and the columns with their values.
        """
        columns = [F.col(field.name).cast(field.dataType).alias(field.name) for field in table.schema.fields]
        folders = {f"_{name}": value for name, value in (by or {}).items()}
        shaped = rows.select(*columns, *[value.alias(name) for name, value in folders.items()])
        writer = (shaped if files is None else shaped.repartition(files)).write.mode("overwrite")
        with self._staging(table) as folder:
            writer.partitionBy(*folders).parquet(self._lake.storage.url(folder))

    def put(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write a few rows of a table without Spark; no file for no rows."""
        if rows:
            with self._staging(table) as folder:
                self._lake.storage.write_rows(f"{folder}/rows.parquet", rows, to_arrow_schema(table.schema))

    def join(self, table: Table, files: Iterable[DataFile]) -> None:
        """Write the rows of other commits' files as one file, in their order, without Spark."""
        paths = [file.path for file in files if file.rows]
        if paths:
            with self._staging(table) as folder:
                self._lake.storage.join_rows(paths, f"{folder}/rows.parquet", to_arrow_schema(table.schema))
        else:
            self._tables[table.name] = []

    def staged(self, table: Table) -> list[DataFile]:
        """Return the files staged for a table, with counts and checksums."""
        return self._tables[table.name]

    def tables(self) -> dict[str, list[DataFile]]:
        """Return all that was staged."""
        return dict(sorted(self._tables.items()))

    def abandon(self) -> None:
        """Remove what was staged; for a commit that is not published."""
        for folder in sorted(self._folders):
            with suppress(OSError):  # no reader sees it, and ``compact`` removes it like the leftovers of killed jobs
                self._lake.storage.remove(folder)

    @contextmanager
    def _staging(self, table: Table) -> Iterator[str]:
        """Yield the folder to write a table's files to, and read their sizes and checksums afterwards."""
        folder = f"{table.name}/{self._folder}"
        with self._lock:
            self._under_way += 1
            self._folders.add(folder)
        try:
            yield folder
            self._describe(table, folder)
        except BaseException:
            self._failed = True
            raise
        finally:
            with self._lock:
                self._under_way -= 1
                is_over = self._failed and not self._under_way
            if is_over:
                self.abandon()

    def _describe(self, table: Table, folder: str) -> None:
        storage = self._lake.storage
        paths = storage.find(folder, ".parquet")
        self._tables[table.name] = [_described(storage, table, path) for path in paths]


class Lake:
    """Tables below one root. One writer per line; any number of readers."""

    def __init__(self, storage: Storage, clock: Clock | None = None) -> None:
        self.storage = storage
        self._clock = clock or SystemClock()

    def begin(self, line: str, name: str) -> Commit | None:
        """Return a commit to stage files for; None when it was published before, so that nothing is to be done."""
        return None if self.storage.exists(_manifest(line, name)) else Commit(self, line, name)

    def publish(
        self, commit: Commit, *, replaces: Iterable[str] = (), facts: Mapping[str, Any] | None = None
    ) -> Manifest:
        """Publish a commit's files, all at once and durably, and return the manifest that is in force.

        Repeating it adds nothing. When another run has published the name meanwhile, its manifest is in force and
        returned, and what this commit staged is removed (``Storage.create`` says where that is certain).

        Raises
        ------
        FileNotFoundError
            A file that was staged is gone; nothing was published.
        """
        names = tuple(replaces)
        if commit.name in names:
            raise ValueError(f"commit {commit.name} of {commit.line} cannot stand for itself")
        tables = commit.tables()
        self.storage.settle([file.path for files in tables.values() for file in files])
        now = self._clock.now()
        manifest = Manifest(commit.line, commit.name, tables, names, dict(facts or {}), published=now)
        if self.storage.create(_manifest(commit.line, commit.name), encode_manifest(manifest)):
            return manifest
        found = self.manifest(commit.line, commit.name)
        if found.tables != tables:
            commit.abandon()
        return found

    def manifest_path(self, manifest: Manifest) -> str:
        """Return the path of a manifest below the root."""
        return _manifest(manifest.line, manifest.name)

    def manifests(self, line: str | None = None) -> list[Manifest]:
        """Return the manifests in force, of one line or of all, by name; without those that others replace."""
        found = self.published(line)
        replaced = {(each.line, name) for each in found for name in each.others}
        return [each for each in found if (each.line, each.name) not in replaced]

    def replaced(self, line: str, until: int) -> list[Manifest]:
        """Return the manifests of a line that were replaced by others published until a time (ms)."""
        found = self.published(line)
        names = {name for each in found if each.published <= until for name in each.others}
        return [each for each in found if each.name in names]

    def discard(self, manifest: Manifest) -> None:
        """Remove a replaced commit: its files, then its manifest, so that an interrupted run can be repeated."""
        for folder in folders_of(manifest):
            self.storage.remove(folder)
        self.storage.remove(self.manifest_path(manifest))

    def names(self, line: str) -> list[str]:
        """Return the names of the commits of a line, also of replaced ones."""
        paths = self.storage.find(f"{_MANIFESTS}/{line}", ".json")
        return [path.rpartition("/")[2].removesuffix(".json") for path in paths]

    def published(self, line: str | None = None) -> list[Manifest]:
        """Return all manifests, of one line or of all, by name; replaced ones as well.

        They are listed twice. One that vanishes while the first list is made or read was discarded; the one that
        replaces it was published before that, and so is in the second list.
        """
        found: dict[str, Manifest] = {}
        for _ in range(2):
            paths = self.storage.find(f"{_MANIFESTS}/{line}" if line else _MANIFESTS, ".json")
            for path, text in self.storage.read_all([path for path in paths if path not in found]):
                found[path] = decode_manifest(text)
        return [found[path] for path in sorted(found)]

    def manifest(self, line: str, name: str) -> Manifest:
        """Return a manifest that was published; raises ``FileNotFoundError``."""
        return decode_manifest(self.storage.read(_manifest(line, name)))

    def files(
        self,
        table: Table,
        *,
        since: dt.datetime | None = None,
        before: dt.datetime | None = None,
        line: str | None = None,
    ) -> list[DataFile]:
        """Return the files of a table that may have rows of a range of times (``before`` exclusive)."""
        least = _micros(since) if since else None
        most = _micros(before) if before else None
        return [
            file
            for manifest in self.manifests(line)
            for file in manifest.tables.get(table.name, ())
            if _may_have(file, least, most)
        ]

    def read(
        self,
        spark: SparkSession,
        table: Table,
        *,
        since: dt.datetime | None = None,
        before: dt.datetime | None = None,
        line: str | None = None,
    ) -> DataFrame:
        """Return the rows of a table, of a range of times by its time column (``before`` exclusive)."""
        files = self.files(table, since=since, before=before, line=line)
        rows = self.rows(spark, table, files)
        if since is not None:
            rows = rows.where(F.col(table.time) >= F.lit(since))
        return rows if before is None else rows.where(F.col(table.time) < F.lit(before))

    def rows(self, spark: SparkSession, table: Table, files: Iterable[DataFile]) -> DataFrame:
        """Return the rows of some files of a table."""
        paths = [self.storage.url(file.path) for file in files if file.rows]
        if not paths:
            return spark.createDataFrame(to_arrow_schema(table.schema).empty_table())
        return spark.read.schema(table.schema).parquet(*paths)


def folders_of(manifest: Manifest) -> list[str]:
    """Return the folders that a commit's files are in, one for each table that it has files of."""
    paths = [file.path for files in manifest.tables.values() for file in files]
    return sorted({"/".join(path.split("/")[:3]) for path in paths})


def _manifest(line: str, name: str) -> str:
    return f"{_MANIFESTS}/{line}/{name}.json"


def _described(storage: Storage, table: Table, path: str) -> DataFile:
    footer = storage.footer(path)
    least, greatest = _range(footer, table.time)
    return DataFile(path, footer.num_rows, storage.size(path), storage.sha256(path), least, greatest)


def _range(footer: Any, column: str) -> tuple[int | None, int | None]:
    """Return the least and the greatest time of a column, as the file's footer has them."""
    names = [footer.schema.column(place).path for place in range(footer.num_columns)]
    if column not in names:
        return None, None
    place = names.index(column)
    groups = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
    ranges = [(_micros(each.min), _micros(each.max)) for each in groups if each is not None and each.has_min_max]
    if not ranges or len(ranges) < len(groups):
        return None, None
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _micros(time: dt.datetime) -> int:
    aware = time if time.tzinfo else time.replace(tzinfo=dt.UTC)
    return (aware - dt.datetime.fromtimestamp(0, dt.UTC)) // dt.timedelta(microseconds=1)


def _may_have(file: DataFile, least: int | None, most: int | None) -> bool:
    if file.rows == 0:
        return False
    after = least is None or file.greatest is None or file.greatest >= least
    return after and (most is None or file.least is None or file.least < most)
