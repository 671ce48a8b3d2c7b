"""``compact``: joins what the stream committed in an hour to one commit with a file for each table.

Rows stay as they are, so readers see the same before and after. Which batches are joined follows from the commits
alone, so an interrupted run and a concurrent one come to commits of the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from bus.error_texts import error_text
from pipeline.errors import JobFailed
from pipeline.lake.batches import READ_LINE, ROLLUP_LINE, batch_name, batches_in, batches_of, is_joined
from pipeline.lake.lake import Commit, Lake
from pipeline.lake.leftovers import leftovers
from pipeline.lake.manifest import DataFile, Manifest
from pipeline.schemas import TABLES

KEPT: Final = 100
"""Number of the newest batches that are not joined: Spark's checkpoint has as many, and may repeat any of them."""
HOUR_MS: Final = 3_600_000
UNPUBLISHED_MS: Final = 24 * HOUR_MS
"""Staged files without changes for so long are abandoned: no job works on a commit for as long without writing."""
_MOST: Final = 512 * 2**20  # bytes of files that are joined to one commit
_LINES: Final = (ROLLUP_LINE, READ_LINE)


class JoinedBatches(NamedTuple):
    """Batches that were joined, with the number of files and their bytes before and after, over all tables."""

    first: int
    last: int
    files_before: int
    files: int
    bytes_before: int
    bytes: int


class SkippedBatches(NamedTuple):
    """Batches that could not be joined, when their hour began (ms), and why; they stay in force."""

    first: int
    last: int
    hour: int
    why: str


class VacuumResult(NamedTuple):
    """The counts of removed files."""

    commits: int
    files: int
    bytes: int


def due(lake: Lake, before: int, *, kept: int = KEPT) -> list[list[Manifest]]:
    """Return the groups of commits to join, as their commits of what was read, the oldest first.

    A group has batches of one hour that ended before a time (ms), none among the newest, all with their rollups.
    An hour with more than half a gibibyte makes several groups.
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


def join_all(
    lake: Lake, groups: Iterable[Sequence[Manifest]], done: Callable[[], None] | None = None
) -> tuple[list[JoinedBatches], list[SkippedBatches]]:
    """Join the commits of each group; return the groups that were joined, and those that could not be and why.

    ``done`` is called after each group.
    """
    joined, left = [], []
    for reads in groups:
        try:
            made = join(lake, reads)
        except (JobFailed, OSError) as error:
            if not _is_done(lake, reads):
                left.append(
                    SkippedBatches(_number(reads[0]), _number(reads[-1]), _hour(reads[0]), str(error_text(error)))
                )
        else:
            joined += [made] if made is not None else []
        if done is not None:
            done()
    return joined, left


def join(lake: Lake, reads: Sequence[Manifest]) -> JoinedBatches | None:
    """Join commits, those of rollups first: an hour is done when its commits of what was read are joined too.

    Nothing is published before all files of both lines were verified and staged. None when another run has done it.

    Raises
    ------
    JobFailed
        A file is not the one that was written; the commits stay in force.
    OSError
        The lake could not be read or written; the commits stay in force.
    """
    found = [_join_of(lake, line, reads) for line in _LINES]
    wanting = [each for each in found if each is not None]
    if not wanting:
        return None
    try:
        for each in wanting:
            each.stage()
    except BaseException:
        for each in wanting:
            each.commit.abandon()
        raise
    whole = [file for each in wanting for file in _files(lake.publish(each.commit, replaces=each.names))]
    old = [file for each in wanting for part in each.parts for file in _files(part)]
    sizes = (len(old), len(whole), sum(file.bytes for file in old), sum(file.bytes for file in whole))
    return JoinedBatches(_number(reads[0]), _number(reads[-1]), *sizes)


def vacuum(lake: Lake, until: int) -> VacuumResult:
    """Remove the commits of the stream that were replaced until a time (ms)."""
    gone = [each for line in _LINES for each in lake.replaced(line, until)]
    for each in gone:
        lake.discard(each)
    files = [file for each in gone for file in _files(each)]
    return VacuumResult(len(gone), len(files), sum(file.bytes for file in files))


def sweep(lake: Lake, now: int, grace: int) -> VacuumResult:
    """Remove staged files that no job published, when they are older than a grace (ms), and than a day.

    Only their age distinguishes them from those that a running job has staged and not published yet.
    """
    left = leftovers(lake, TABLES, now - max(grace, UNPUBLISHED_MS))
    storage = lake.storage
    files = [path for folder in left.folders for path in storage.find(folder, "")] + left.files
    freed = VacuumResult(left.commits, len(files), sum(storage.size(path) for path in files))
    for path in (*left.folders, *left.files):
        storage.remove(path)
    return freed


def _groups(single: Sequence[Manifest]) -> Iterator[list[Manifest]]:
    """Yield groups of consecutive batches of one hour, limited in size."""
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


class _Join(NamedTuple):
    """A commit that is to replace others, its parts, whose files were all verified."""

    commit: Commit
    parts: Sequence[Manifest]

    @property
    def names(self) -> list[str]:
        return [part.name for part in self.parts]

    def stage(self) -> None:
        """Write the rows of the parts, a file for each table; raises ``JobFailed`` when some are not there then."""
        for name in sorted({table for part in self.parts for table in part.tables}):
            table, files = TABLES[name], [file for part in self.parts for file in part.tables.get(name, ())]
            self.commit.join(table, files)
            if sum(file.rows for file in self.commit.staged(table)) != sum(file.rows for file in files):
                raise JobFailed(
                    f"rows of {name} were lost in putting {self.commit.name} of {self.commit.line} together; "
                    "nothing was changed"
                )


def _join_of(lake: Lake, line: str, reads: Sequence[Manifest]) -> _Join | None:
    """Return the commit of a line that joins others; None when it was published before."""
    commit = lake.begin(line, _name(reads))
    if commit is None:
        return None
    parts = [lake.manifest(line, each.name) for each in reads]
    for file in (file for part in parts for file in _files(part)):
        _verify(lake, line, file)
    return _Join(commit, parts)


def _verify(lake: Lake, line: str, file: DataFile) -> None:
    if not lake.storage.exists(file.path) or lake.storage.sha256(file.path) != file.sha256:
        raise JobFailed(
            f"{lake.storage.url(file.path)} is not the file that {line} wrote; its hour was left as it is",
            hint="put the file back from a copy, or have the stream read its source again into another lake",
        )


def _is_done(lake: Lake, reads: Sequence[Manifest]) -> bool:
    """Whether another run has joined these commits; their own files may be gone by now."""
    return all(lake.begin(line, _name(reads)) is None for line in _LINES)


def _name(reads: Sequence[Manifest]) -> str:
    return batch_name(_number(reads[0]), _number(reads[-1]))


def _files(manifest: Manifest) -> list[DataFile]:
    return [file for files in manifest.tables.values() for file in files]


def _number(manifest: Manifest) -> int:
    return batches_of(manifest.name).start


def _hour(manifest: Manifest) -> int:
    """Return the start of the hour in which a commit was published (ms)."""
    return manifest.published // HOUR_MS * HOUR_MS
