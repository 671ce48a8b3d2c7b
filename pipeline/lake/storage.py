"""The storage of the lake: a local folder, one on a volume or on HDFS, accessed without Spark."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs as arrow_fs
from pyarrow import parquet

from bus.errors import ConfigurationError

_SCHEMES: Final = ("file", "hdfs")  # no object store has a scheme that both pyarrow and Spark as shipped know
_CHUNK: Final = 2**20
_ROWS: Final = 200
_MS: Final = 1_000_000  # nanoseconds
_GROUP: Final = 128 * 1024
_LOOKS: Final = 5
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class Storage:
    """Files below a root: a path, or a URI that Spark and pyarrow both understand.

    Raises
    ------
    ConfigurationError
        The URI is invalid, or has another scheme, such as an object store's.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        if "://" in root:
            self._files, base = _reached(self.root)
        else:
            self._files, base = arrow_fs.LocalFileSystem(), self.root
        self._base = base.rstrip("/")

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
        written = (self._files.get_file_info(self._at(path)).mtime_ns or 0) // _MS
        if isinstance(self._files, arrow_fs.LocalFileSystem):
            with contextlib.suppress(FileNotFoundError):  # a copy may have the time of its original
                return max(written, Path(self._at(path)).stat().st_ctime_ns // _MS)
        return int(written)

    def exists(self, path: str) -> bool:
        """Whether there is a file."""
        return bool(self._files.get_file_info(self._at(path)).is_file)

    def read(self, path: str) -> bytes:
        """Return a file's bytes; raises ``FileNotFoundError``."""
        with self._files.open_input_stream(self._at(path)) as stream:
            return bytes(stream.read())

    def write(self, path: str, content: bytes) -> None:
        """Write or replace a file atomically; durable when it returns."""
        with self._partial(path, content) as partial:
            self._files.move(self._at(partial), self._at(path))
        self.settle([path])

    def create(self, path: str, content: bytes) -> bool:
        """Create a file atomically; False when there is one already, which stays as it is.

        Durable when it returns, whoever wrote it. Of concurrent writers exactly one gets True where the file system has
        hard links, as local ones do. Elsewhere its absence is checked right before the rename: two writers within that
        moment may both get True, and the later one's file stays.
        """
        with self._partial(path, content) as partial:
            created = self._name(partial, path)
        self.settle([path])
        return created

    def write_rows(self, path: str, rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> None:
        """Write rows as one Parquet file."""
        folder, _, _ = path.rpartition("/")
        self._files.create_dir(self._at(folder), recursive=True)
        parquet.write_table(pa.Table.from_pylist(list(rows), schema), self._at(path), filesystem=self._files)

    def join_rows(self, paths: Sequence[str], into: str, schema: pa.Schema) -> None:
        """Write the rows of Parquet files, in order, as one file; columns that a file lacks are null."""
        folder, _, _ = into.rpartition("/")
        self._files.create_dir(self._at(folder), recursive=True)
        from pyarrow import dataset  # noqa: PLC0415 - it loads pandas

        sources = dataset.dataset([self._at(path) for path in paths], schema, format="parquet", filesystem=self._files)
        with parquet.ParquetWriter(self._at(into), schema, compression="zstd", filesystem=self._files) as writer:
            for rows in _in_groups(sources.to_batches(batch_readahead=1, fragment_readahead=1)):
                writer.write_table(pa.Table.from_batches(rows, schema))

    def settle(self, paths: Iterable[str]) -> None:
        """Sync local files and the folders that they are in; remote files are durable once written.

        Raises ``FileNotFoundError`` when one does not exist.
        """
        if not isinstance(self._files, arrow_fs.LocalFileSystem):
            gone = next((path for path in paths if not self.exists(path)), None)
            if gone is not None:
                raise FileNotFoundError(errno.ENOENT, "it is gone", self.url(gone))
            return
        files = [Path(self._at(path)) for path in paths]
        root = Path(self._base)
        folders = {folder for file in files for folder in file.parents if folder.is_relative_to(root)}
        for path in (*files, *sorted(folders, reverse=True)):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def remove(self, path: str) -> None:
        """Remove a file or a folder with all below it; nothing happens when it is not there."""
        with contextlib.suppress(FileNotFoundError):
            if self._files.get_file_info(self._at(path)).is_file:
                self._files.delete_file(self._at(path))
            else:
                self._files.delete_dir(self._at(path))

    def size(self, path: str) -> int:
        """Return a file's length in bytes."""
        return int(self._files.get_file_info(self._at(path)).size or 0)

    def sha256(self, path: str) -> str:
        """Return the checksum of a file's bytes."""
        digest = hashlib.sha256()
        with self._files.open_input_stream(self._at(path)) as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
        return digest.hexdigest()

    def footer(self, path: str) -> parquet.FileMetaData:
        """Return the metadata in the footer of a Parquet file."""
        return parquet.read_metadata(self._at(path), filesystem=self._files)

    def rows(self, path: str) -> Iterator[dict[str, Any]]:
        """Give the rows of a Parquet file in their order, without holding them all."""
        with self._files.open_input_file(self._at(path)) as file, parquet.ParquetFile(file) as rows:
            for batch in rows.iter_batches(batch_size=_ROWS):
                yield from batch.to_pylist()

    def _list(self, folder: str, *, recursive: bool) -> list[arrow_fs.FileInfo]:
        selector = arrow_fs.FileSelector(self._at(folder), allow_not_found=True, recursive=recursive)
        for _ in range(_LOOKS):
            # pyarrow checks a missing folder twice, and raises an error if it was made in between: then try again.
            with contextlib.suppress(FileNotFoundError):
                return list(self._files.get_file_info(selector))
        return list(self._files.get_file_info(selector))

    def _path(self, found: arrow_fs.FileInfo) -> str:
        return str(found.path[len(self._base) + 1 :])

    @contextlib.contextmanager
    def _partial(self, path: str, content: bytes) -> Iterator[str]:
        """Yield the path of a durable temporary file with the content, beside its target; it is removed afterwards."""
        folder, _, name = path.rpartition("/")
        self._files.create_dir(self._at(folder), recursive=True)
        partial = f"{folder}/.{name}.{uuid.uuid4().hex[:8]}.partial"  # unique, as others may write the same file
        try:
            with self._files.open_output_stream(self._at(partial)) as stream:
                stream.write(content)
            self.settle([partial])  # before the rename: else a power cut could leave an empty file of that name
            yield partial
        finally:
            with contextlib.suppress(OSError):
                self.remove(partial)

    def _name(self, partial: str, path: str) -> bool:
        """Link or rename a temporary file to its target unless there is one; return whether it was done."""
        if isinstance(self._files, arrow_fs.LocalFileSystem):
            try:
                os.link(self._at(partial), self._at(path))
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
            else:
                return True
        if self.exists(path):
            return False
        self._files.move(self._at(partial), self._at(path))
        return True

    def _at(self, path: str) -> str:
        return f"{self._base}/{path}" if path else self._base


def _reached(root: str) -> tuple[arrow_fs.FileSystem, str]:
    """Return the file system of a URI, and the path in it."""
    reason = "allowed are " + " and ".join(f"{scheme}://" for scheme in _SCHEMES)
    if root.partition("://")[0] in _SCHEMES:
        try:
            files, base = arrow_fs.FileSystem.from_uri(root)
        except pa.ArrowInvalid as error:
            reason = str(error)
        else:
            return files, base
    raise ConfigurationError(
        f"the lake {root} cannot be reached: {reason}",
        hint="name a folder, such as one of a volume that all machines mount",
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
