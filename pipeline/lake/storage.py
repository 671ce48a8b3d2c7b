"""The storage of the lake: a local folder, one on HDFS, or objects of a bucket, accessed without Spark."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as arrow_fs
from pyarrow import parquet

from bus.errors import ConfigurationError
from pipeline.lake.files import Files, LocalFiles
from pipeline.object_store import SCHEME, is_object_store

_SCHEMES: Final = ("file", "hdfs", SCHEME)
_CHUNK: Final = 8 * 2**20
_ROWS: Final = 200
_GROUP: Final = 128 * 1024
_LOOKS: Final = 5


class Storage:
    """Files below a root: a path, or a URI that Spark and pyarrow both understand.

    Raises
    ------
    ConfigurationError
        The URI is invalid, or has another scheme.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._files = _reached(root) if "://" in root else LocalFiles(self.root)
        self._arrow = self._files.arrow

    def check(self) -> None:
        """Check that the root can be reached, which may be empty or not there yet; raises ``ConfigurationError``."""
        self._files.check()

    def url(self, path: str) -> str:
        """Return the name by which Spark finds a path below the root."""
        return f"{self.root}/{path}"

    def find(self, folder: str, suffix: str) -> list[str]:
        """Return the paths of all files below a folder that end so, sorted; none when there is no such folder."""
        found = self._list(folder, recursive=True)
        return sorted(self._path(each) for each in found if each.is_file and each.path.endswith(suffix))

    def folders(self, folder: str) -> list[str]:
        """Return the folders directly below a folder, sorted."""
        kind = arrow_fs.FileType.Directory
        return sorted(self._path(each) for each in self._list(folder, recursive=False) if each.type == kind)

    def below(self, folder: str) -> list[str]:
        """Return the paths of all files and folders below a folder; none when there is no such folder."""
        return [self._path(each) for each in self._list(folder, recursive=True)]

    def changed(self, path: str) -> int:
        """Return when a file or folder was last written, or moved or copied to its path (ms), as far as that is known.

        A remote folder may have no time; that is 0, as for what does not exist.
        """
        return self._files.changed(path)

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return bool(self._arrow.get_file_info(self._files.at(path)).is_file)

    def read(self, path: str) -> bytes:
        """Return a file's bytes; raises ``FileNotFoundError``."""
        return self._files.read(path)

    def read_all(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Give the bytes of many small files by their paths, without those that do not exist any more."""
        return self._files.read_all(paths)

    def write(self, path: str, content: bytes) -> None:
        """Write or replace a file atomically; durable when it returns."""
        self._files.write(path, content)

    def create(self, path: str, content: bytes) -> bool:
        """Create a file atomically; False when there is one already, which stays as it is.

        Durable when it returns, also when another writer created the file. Of concurrent writers exactly one gets True
        where the file system has hard links, as local ones do, or takes requests on condition, as object stores do.
        Elsewhere its absence is checked right before the rename: two writers within that moment may both get True, and
        the later one's file stays.
        """
        return self._files.create(path, content)

    def write_rows(self, path: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
        """Write rows as one Parquet file."""
        self._files.make_folder(path)
        parquet.write_table(pa.Table.from_pylist(list(rows), schema), self._files.at(path), filesystem=self._arrow)

    def join_rows(self, paths: Sequence[str], into: str, schema: pa.Schema) -> None:
        """Write the rows of Parquet files, in order, as one file; columns that a file lacks are null."""
        self._files.make_folder(into)
        from pyarrow import dataset  # noqa: PLC0415 - it loads pandas

        found = [self._files.at(path) for path in paths]
        sources = dataset.dataset(found, schema, format="parquet", filesystem=self._arrow)
        with parquet.ParquetWriter(self._files.at(into), schema, compression="zstd", filesystem=self._arrow) as writer:
            for rows in _in_groups(sources.to_batches(batch_readahead=1, fragment_readahead=1)):
                writer.write_table(pa.Table.from_batches(rows, schema))

    def settle(self, paths: Iterable[str]) -> None:
        """Sync local files and the folders that they are in; remote files are durable once written.

        Raises ``FileNotFoundError`` when one does not exist.
        """
        self._files.settle(paths)

    def remove(self, path: str) -> None:
        """Remove a file or a folder with all below it; nothing happens when it is not there."""
        self._files.remove(path)

    def size(self, path: str) -> int:
        """Return a file's length in bytes."""
        return int(self._arrow.get_file_info(self._files.at(path)).size or 0)

    def sha256(self, path: str) -> str:
        """Return the checksum of a file's bytes."""
        digest = hashlib.sha256()
        with self._arrow.open_input_stream(self._files.at(path)) as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def footer(self, path: str) -> parquet.FileMetaData:
        """Return the metadata in the footer of a Parquet file."""
        return parquet.read_metadata(self._files.at(path), filesystem=self._arrow)

    def rows(self, path: str) -> Iterator[dict[str, Any]]:
        """Give the rows of a Parquet file in their order, without holding them all."""
        with self._arrow.open_input_file(self._files.at(path)) as file, parquet.ParquetFile(file) as rows:
            for batch in rows.iter_batches(batch_size=_ROWS):
                yield from batch.to_pylist()

    def _list(self, folder: str, *, recursive: bool) -> list[arrow_fs.FileInfo]:
        selector = arrow_fs.FileSelector(self._files.at(folder), allow_not_found=True, recursive=recursive)
        for _ in range(_LOOKS):
            # pyarrow checks a missing folder twice, and raises an error if it was made in between: then try again.
            with contextlib.suppress(FileNotFoundError):
                return list(self._arrow.get_file_info(selector))
        return list(self._arrow.get_file_info(selector))

    def _path(self, found: arrow_fs.FileInfo) -> str:
        return str(found.path[len(self._files.base) + 1 :])


def _reached(root: str) -> Files:
    """Return the files of a URI."""
    if is_object_store(root):
        from pipeline.lake.objects import Objects  # noqa: PLC0415 - few lakes are in one

        return Objects(root)
    reason = f"allowed are {', '.join(f'{scheme}://' for scheme in _SCHEMES)}"
    if root.partition("://")[0] in _SCHEMES:
        try:
            files, base = arrow_fs.FileSystem.from_uri(root)
        except pa.ArrowInvalid as error:
            reason = str(error)
        else:
            return LocalFiles(base) if isinstance(files, arrow_fs.LocalFileSystem) else Files(files, base)
    raise ConfigurationError(
        f"the lake {root} cannot be reached: {reason}",
        hint="name a folder, such as one of a volume that all machines mount, or s3a://BUCKET/PATH",
    )


def _in_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Gather batches to row groups, which Parquet compresses and indexes separately."""
    group: list[pa.RecordBatch] = []
    for batch in batches:
        group.append(batch)
        if sum(each.num_rows for each in group) >= _GROUP:
            yield group
            group = []
    if group:
        yield group
