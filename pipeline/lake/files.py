"""Files below a root, on whatever they lie: how each is written whole, by one of many, and durably."""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pyarrow.fs as arrow_fs

_AT_ONCE: Final = 16
_MS: Final = 1_000_000  # nanoseconds
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})


class Files:
    """Files of another machine's file system, such as HDFS: durable once written, and renamed to their names.

    Attributes
    ----------
    arrow
        The file system as pyarrow has it.
    base
        The root's path in it.
    """

    def __init__(self, arrow: arrow_fs.FileSystem, base: str) -> None:
        self.arrow = arrow
        self.base = base.rstrip("/")

    def at(self, path: str) -> str:
        """Return the path in the file system of a path below the root."""
        return f"{self.base}/{path}" if path else self.base

    def check(self) -> None:
        """Check that the root can be reached, which may be empty or not there yet; raises ``ConfigurationError``."""

    def make_folder(self, path: str) -> None:
        """Make the folder that a file is to be in, and those above it."""
        self.arrow.create_dir(self.at(path.rpartition("/")[0]), recursive=True)

    def read(self, path: str) -> bytes:
        """Return a file's bytes; raises ``FileNotFoundError``."""
        with self.arrow.open_input_stream(self.at(path)) as stream:
            return bytes(stream.read())

    def read_all(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Give the bytes of many small files by their paths, without those that do not exist any more."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:  # each waits for the other machine
            for path, content in zip(paths, pool.map(self._read_or_none, paths), strict=True):
                if content is not None:
                    yield path, content

    def write(self, path: str, content: bytes) -> None:
        """Write or replace a file atomically; durable when it returns."""
        with self._partial(path, content) as partial:
            self.arrow.move(self.at(partial), self.at(path))
        self.settle([path])

    def create(self, path: str, content: bytes) -> bool:
        """Create a file atomically; False when there is one already, which stays as it is. Durable when it returns.

        Its absence is checked right before the rename: two writers within that moment may both get True, and the later
        one's file stays.
        """
        with self._partial(path, content) as partial:
            created = self._name(partial, path)
        self.settle([path])
        return created

    def changed(self, path: str) -> int:
        """Return the time of the last write to a file (ms); 0 for a missing file, and for folders without a time."""
        return int((self.arrow.get_file_info(self.at(path)).mtime_ns or 0) // _MS)

    def settle(self, paths: Iterable[str]) -> None:
        """Make files durable that others wrote; raises ``FileNotFoundError`` when one does not exist."""
        gone = next((path for path in paths if not self._is_there(path)), None)
        if gone is not None:
            raise FileNotFoundError(errno.ENOENT, "it is gone", self.at(gone))

    def remove(self, path: str) -> None:
        """Remove a file or a folder with all below it; nothing happens when it is not there."""
        with contextlib.suppress(FileNotFoundError):
            if self._is_there(path):
                self.arrow.delete_file(self.at(path))
            else:
                self.arrow.delete_dir(self.at(path))

    def _read_or_none(self, path: str) -> bytes | None:
        try:
            return self.read(path)
        except FileNotFoundError:
            return None

    def _is_there(self, path: str) -> bool:
        return bool(self.arrow.get_file_info(self.at(path)).is_file)

    @contextlib.contextmanager
    def _partial(self, path: str, content: bytes) -> Iterator[str]:
        """Yield the path of a durable temporary file with the content, beside its target; it is removed afterwards."""
        folder, _, name = path.rpartition("/")
        self.make_folder(path)
        partial = f"{folder}/.{name}.{uuid.uuid4().hex[:8]}.partial"  # unique, as others may write the same file
        try:
            with self.arrow.open_output_stream(self.at(partial)) as stream:
                stream.write(content)
            self.settle([partial])  # before the rename: else a power cut could leave an empty file of that name
            yield partial
        finally:
            with contextlib.suppress(OSError):
                self.remove(partial)

    def _name(self, partial: str, path: str) -> bool:
        """Rename a temporary file to its target unless there is one; return whether it was done."""
        if self._is_there(path):
            return False
        self.arrow.move(self.at(partial), self.at(path))
        return True


class LocalFiles(Files):
    """Files of this machine, or of a volume that it mounts: synced with the folders that they are in."""

    def __init__(self, base: str) -> None:
        super().__init__(arrow_fs.LocalFileSystem(), base)

    def changed(self, path: str) -> int:
        """Return when a file or folder was last written, or moved or copied to its path (ms); 0 for none."""
        written = super().changed(path)
        with contextlib.suppress(FileNotFoundError):  # a copy may have the time of its original
            return max(written, Path(self.at(path)).stat().st_ctime_ns // _MS)
        return written

    def read_all(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Give the bytes of many small files by their paths, without those that do not exist any more."""
        found = ((path, self._read_or_none(path)) for path in paths)
        return ((path, content) for path, content in found if content is not None)

    def settle(self, paths: Iterable[str]) -> None:
        """Sync files and the folders that they are in; raises ``FileNotFoundError`` when one does not exist."""
        files = [Path(self.at(path)) for path in paths]
        root = Path(self.base)
        folders = {folder for file in files for folder in file.parents if folder.is_relative_to(root)}
        for path in (*files, *sorted(folders, reverse=True)):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _name(self, partial: str, path: str) -> bool:
        """Link, of which exactly one writer's succeeds; rename where the file system has no hard links."""
        try:
            os.link(self.at(partial), self.at(path))
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return super()._name(partial, path)
        return True
