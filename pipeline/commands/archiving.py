"""``bus pipeline archive``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from bus.cli.api import NOT_FOUND, Api
from bus.cli.options import Output
from bus.cli.output import print_json_line, progress
from bus.clock import SystemClock
from bus.domain.tracing.partition import PartitionLabel
from bus.errors import ReceiverRefused
from pipeline.commands.looking import check_lake, check_store
from pipeline.errors import JobFailed
from pipeline.jobs.archive import PartitionContents, compact, count, due, verify, write
from pipeline.lake.lake import Lake
from pipeline.lake.manifest import Manifest
from pipeline.lake.storage import Storage
from pipeline.options import SessionOptions
from pipeline.schemas import MESSAGES
from pipeline.session import running
from pipeline.sources.store import partitions_of, read_messages

_CONFLICT: Final = 409
_LONGEST: Final = 3600.0  # the bus reads all of a partition before it drops it


class ArchiveOptions(NamedTuple):
    """The arguments of the command; ``keep`` archives and drops nothing, ``dry_run`` only counts."""

    store: str
    lake: str
    older_than: int
    url: str
    api_key: str
    keep: bool = False
    dry_run: bool = False


class ArchiveResult(NamedTuple):
    """The result of a partition.

    Attributes
    ----------
    state
        ``unfinished`` (left for a later run), ``unreadable`` (left until its bodies are there), ``changed`` (while it
        was archived: left as well), ``empty`` (nothing is in it, or no longer), ``counted`` (a dry run), ``archived``
        (and kept in the store), or ``dropped``.
    unfinished, unreadable
        How many messages are not finished yet, and how many lack their body.
    """

    partition: str
    state: str
    messages: int
    deliveries: int
    unfinished: int = 0
    unreadable: int = 0
    files: int = 0
    bytes: int = 0


def run(options: ArchiveOptions, session: SessionOptions, *, output: Output) -> None:
    """Archive every partition that is old enough, one after the other, and report each.

    Raises
    ------
    JobFailed
        Bodies cannot be read; their partitions stay in the store, and all others were archived.
    """
    table = output.table(*ArchiveResult._fields)
    check_store(options.store, session)
    check_lake(options.lake)
    with running("archive", session, options.lake) as spark, progress() as shown:
        task = shown.add_task("partitions", total=None)

        def tell(one: ArchiveResult, of: int) -> None:
            if output.as_json:
                print_json_line(one._asdict())
            shown.update(task, advance=1, total=of)

        found = archive(spark, options, tell)
    if not output.as_json:
        table.show([each._asdict() for each in found])
    check_readable(found)


def check_readable(found: Sequence[ArchiveResult]) -> None:
    """Raise ``JobFailed`` where bodies cannot be read."""
    left = [each for each in found if each.unreadable]
    if left:
        raise JobFailed(
            f"in {', '.join(each.partition for each in left)} the bodies of {sum(each.unreadable for each in left)} "
            "messages cannot be read; these days stay in the store as they are",
            hint="restore the store's files from a backup and run it again, or leave these days to the retention",
        )


def archive(
    spark: SparkSession, options: ArchiveOptions, tell: Callable[[ArchiveResult, int], None] | None = None
) -> list[ArchiveResult]:
    """Do what the command does in a session that is open; ``tell`` gets what became of each, and how many there are."""
    lake = Lake(Storage(options.lake))
    found: list[ArchiveResult] = []
    with Api(options.url, options.api_key, timeout=_LONGEST) as api:
        partitions = due(options.store, SystemClock().now(), options.older_than)
        for partition in partitions:
            found.append(_partition(spark, lake, api, options, partition))
            if tell is not None:
                tell(found[-1], len(partitions))
        if not options.dry_run:
            compact(spark, lake, {partition.name for partition in partitions_of(options.store)})
    return found


def _partition(
    spark: SparkSession, lake: Lake, api: Api, options: ArchiveOptions, partition: PartitionLabel
) -> ArchiveResult:
    counted = count(read_messages(spark, options.store, partition=partition, bodies=True))
    state = _as_it_is(counted)
    if state is not None:
        return _told(partition, state, counted)
    if options.dry_run:
        return _told(partition, "counted", counted)
    manifest = write(spark, lake, options.store, partition, counted)
    if manifest is None:
        return _told(partition, "changed", counted)
    contents = verify(spark, lake, manifest)
    if options.keep:
        return _told(partition, "archived", counted, manifest)
    state = _dropped(api, options, partition, {**contents._asdict(), "lake": _place(options.lake)})
    return _told(partition, state, counted, manifest)


def _place(lake: str) -> str:
    """Return a lake's name independent of the working directory."""
    return lake if "://" in lake else str(Path(lake).absolute())


def _as_it_is(counted: PartitionContents) -> str | None:
    """Return the state of a partition that cannot be archived now; None for one that can."""
    if not counted.contents.messages:
        return "empty"
    if counted.unfinished:
        return "unfinished"
    return "unreadable" if counted.unreadable else None


def _dropped(api: Api, options: ArchiveOptions, partition: PartitionLabel, body: dict[str, Any]) -> str:
    """Have the bus drop a partition; it may refuse because the partition has changed.

    If a killed run asked for the same before, the bus may have dropped it already: that counts as dropped too.
    """
    try:
        api.call("POST", f"/api/v1/partitions/{partition.name}/drop", body=body)
    except ReceiverRefused as error:
        if error.status == _CONFLICT:
            return "changed"
        if error.status != NOT_FOUND or partition in partitions_of(options.store):
            raise
    return "dropped"


def _told(
    partition: PartitionLabel, state: str, counted: PartitionContents, manifest: Manifest | None = None
) -> ArchiveResult:
    files = manifest.tables[MESSAGES.name] if manifest is not None else []
    contents = counted.contents
    return ArchiveResult(
        partition.name,
        state,
        contents.messages,
        contents.deliveries,
        counted.unfinished,
        counted.unreadable,
        len(files),
        sum(file.bytes for file in files),
    )
