"""``compact``: what the stream committed in an hour, put together to one commit with a file for each table.

Rows stay as they are, so readers see the same before and after. Which batches come together follows from the commits
alone, whoever runs it and when: a run that was cut off, or another beside it, comes to the same names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pipeline.errors import JobFailed
from pipeline.jobs.rollup import READ_LINE, ROLLUP_LINE, batches_in
from pipeline.lake.batches import batch_name, batches_of, is_joined
from pipeline.lake.lake import Lake
from pipeline.lake.manifest import DataFile, Manifest
from pipeline.schemas import TABLES

KEPT: Final = 100
"""The newest batches stay as they are: Spark's checkpoint has as many, and may go back to any of them."""
HOUR_MS: Final = 3_600_000
_MOST: Final = 512 * 2**20  # bytes of what is put together
_LINES: Final = (ROLLUP_LINE, READ_LINE)


class Joined(NamedTuple):
    """Batches that were put together, with the number of files and their bytes before and after, over all tables."""

    first: int
    last: int
    files_before: int
    files: int
    bytes_before: int
    bytes: int


class Freed(NamedTuple):
    """What was removed."""

    commits: int
    files: int
    bytes: int


def due(lake: Lake, before: int, *, kept: int = KEPT) -> list[list[Manifest]]:
    """Return the commits to put together, by what they read, the oldest first.

    These are batches of one hour that ended before a time (ms), none of them among the newest, all with their rollups.
    An hour with more than half a gibibyte makes several.
    """
    newest = max(batches_in(lake.names(READ_LINE)), default=0)
    rolled = batches_in(each.name for each in lake.manifests(ROLLUP_LINE))
    single = [each for each in lake.manifests(READ_LINE) if not is_joined(each.name)]
    return [
        group
        for group in _groups(single)
        if len(group) > 1
        and _hour(group[-1]) + HOUR_MS <= before
        and _number(group[-1]) <= newest - kept
        and rolled.issuperset(_number(each) for each in group)
    ]


def join(lake: Lake, reads: Sequence[Manifest]) -> Joined:
    """Put commits together, their rollups first: an hour is done when what it read is.

    Raises
    ------
    JobFailed
        A file is not the one that was written; the commits count as before.
    """
    name = batch_name(_number(reads[0]), _number(reads[-1]))
    files_before = files = bytes_before = bytes_ = 0
    for line in _LINES:
        parts = [lake.manifest(line, each.name) for each in reads]
        whole = _joined(lake, line, name, parts)
        old = [file for part in parts for file in _files(part)]
        files_before, bytes_before = files_before + len(old), bytes_before + sum(file.bytes for file in old)
        files, bytes_ = files + len(_files(whole)), bytes_ + sum(file.bytes for file in _files(whole))
    return Joined(_number(reads[0]), _number(reads[-1]), files_before, files, bytes_before, bytes_)


def vacuum(lake: Lake, until: int) -> Freed:
    """Remove the commits of the stream that others have stood for since a time (ms) or longer."""
    gone = [each for line in _LINES for each in lake.replaced(line, until)]
    for each in gone:
        lake.discard(each)
    files = [file for each in gone for file in _files(each)]
    return Freed(len(gone), len(files), sum(file.bytes for file in files))


def _groups(single: Sequence[Manifest]) -> Iterator[list[Manifest]]:
    """Give runs of batches without a gap, of one hour and of a size to be handled."""
    group: list[Manifest] = []
    for each in single:
        if group and not _belongs(each, group):
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _belongs(manifest: Manifest, group: Sequence[Manifest]) -> bool:
    follows = _number(manifest) == _number(group[-1]) + 1 and _hour(manifest) == _hour(group[-1])
    return follows and sum(file.bytes for each in (*group, manifest) for file in _files(each)) <= _MOST


def _joined(lake: Lake, line: str, name: str, parts: Sequence[Manifest]) -> Manifest:
    commit = lake.begin(line, name)
    if commit is None:
        return lake.manifest(line, name)
    for table in sorted({table for part in parts for table in part.tables}):
        files = [file for part in parts for file in part.tables.get(table, ())]
        _verify(lake, line, files)
        commit.join(TABLES[table], files)
        if sum(file.rows for file in commit.staged(TABLES[table])) != sum(file.rows for file in files):
            raise JobFailed(f"rows of {table} were lost in putting {name} of {line} together; nothing was changed")
    return lake.publish(commit, replaces=[part.name for part in parts])


def _verify(lake: Lake, line: str, files: Sequence[DataFile]) -> None:
    for file in files:
        if lake.storage.sha256(file.path) != file.sha256:
            raise JobFailed(
                f"{lake.storage.url(file.path)} is not the file that {line} wrote; its commits were left as they are",
                hint="put the file back from a copy, or have the stream read its source again into another lake",
            )


def _files(manifest: Manifest) -> list[DataFile]:
    return [file for files in manifest.tables.values() for file in files]


def _number(manifest: Manifest) -> int:
    return batches_of(manifest.name).start


def _hour(manifest: Manifest) -> int:
    """Return when the hour began in which a commit was published (ms)."""
    return manifest.published // HOUR_MS * HOUR_MS
