"""``archive``: partitions of the store to Parquet, read back and verified, and only then dropped from the store.

A partition, a day and retention class, is one commit of the lake: a file for each of its hours and destinations. The
commit is named by its contents, so that a killed run is simply repeated: a commit that is there already is verified
again, and a partition that changed meanwhile makes a commit of another name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bus.domain.times import DAY
from bus.domain.tracing.contents import Contents
from bus.domain.tracing.partition import PartitionLabel
from pipeline.errors import JobFailed
from pipeline.lake.lake import Commit, Lake
from pipeline.lake.manifest import Manifest
from pipeline.schemas import MESSAGES
from pipeline.sources.store import partitions_of, read_messages
from pipeline.transforms.contents import counted, left_behind, line_digest

VERSION: Final = 1
LINE: Final = f"archive-v{VERSION}"
_DIGEST: Final = "_digest"


class PartitionContents(NamedTuple):
    """The contents of a partition, and how many of its messages cannot be archived yet."""

    contents: Contents
    unfinished: int
    unreadable: int


def due(store: str, now: int, days: int) -> list[PartitionLabel]:
    """Return the partitions of a store whose ids were all made so many days ago, the oldest first."""
    return [partition for partition in partitions_of(store) if (partition.day + 1 + days) * DAY <= now]


def count(messages: DataFrame) -> PartitionContents:
    """Count messages (``schemas.MESSAGES``) that have their bodies."""
    (row,) = counted(messages).collect()
    checksum = f"{row.half_0:015x}{row.half_1:015x}"
    return PartitionContents(Contents(row.messages, row.deliveries, checksum), row.unfinished, row.unreadable)


def write(
    spark: SparkSession, lake: Lake, store: str, partition: PartitionLabel, found: PartitionContents
) -> Manifest | None:
    """Archive a partition that was counted; None when it changed meanwhile, and nothing was published."""
    name = f"{partition.name}-{found.contents.checksum}"
    commit = lake.begin(LINE, name)
    if commit is None:
        return _published(lake, name)
    rows = read_messages(spark, store, partition=partition, bodies=True)
    staged = _staged(spark, lake, commit, rows)
    if count(staged).contents != found.contents:
        commit.abandon()
        return None
    of_it = [each for each in lake.manifests(LINE) if each.facts.get("partition") == partition.name]
    earlier = [each for each in of_it if each.name != name]  # another run may have published the same meanwhile
    replaces = [each.name for each in earlier if left_behind(rows_of(spark, lake, [each]), staged).isEmpty()]
    return _publish(lake, commit, partition.name, found.contents, replaces)


def verify(spark: SparkSession, lake: Lake, manifest: Manifest) -> Contents:
    """Read the files of a commit back, and return its contents.

    Raises
    ------
    JobFailed
        A file is not the one that was written, or the rows are not those that were counted.
    """
    for file in manifest.tables[MESSAGES.name]:
        if not lake.storage.exists(file.path) or lake.storage.sha256(file.path) != file.sha256:
            raise _damaged(lake, manifest, f"{file.path} is not the file that was written")
    contents = count(rows_of(spark, lake, [manifest])).contents
    if contents != Contents(*(manifest.facts[name] for name in Contents._fields)):
        raise _damaged(lake, manifest, "its rows are not those of the store")
    return contents


def compact(spark: SparkSession, lake: Lake, present: Collection[str]) -> list[Manifest]:
    """Join the commits of partitions that have several, except those that the store has again (``present``)."""
    commits: defaultdict[str, list[Manifest]] = defaultdict(list)
    for manifest in lake.manifests(LINE):
        commits[manifest.facts["partition"]].append(manifest)
    several = {name: parts for name, parts in commits.items() if len(parts) > 1 and name not in present}
    return [
        made for name, parts in sorted(several.items()) if (made := _together(spark, lake, name, parts)) is not None
    ]


def rows_of(spark: SparkSession, lake: Lake, manifests: Iterable[Manifest]) -> DataFrame:
    """Return the messages of commits."""
    return lake.rows(spark, MESSAGES, [file for manifest in manifests for file in manifest.tables[MESSAGES.name]])


def _together(spark: SparkSession, lake: Lake, partition: str, parts: list[Manifest]) -> Manifest | None:
    # A message that came again after its partition was dropped has two histories, and both stay.
    rows = rows_of(spark, lake, parts).withColumn(_DIGEST, line_digest()).dropDuplicates([_DIGEST])
    contents = count(rows).contents
    commit = lake.begin(LINE, f"{partition}-{contents.checksum}")
    if commit is None:
        return None
    staged = _staged(spark, lake, commit, rows)
    if count(staged).contents != contents:
        commit.abandon()
        raise JobFailed(f"the commits of {partition} could not be put together; they count as before")
    return _publish(lake, commit, partition, contents, [each.name for each in parts])


def _staged(spark: SparkSession, lake: Lake, commit: Commit, rows: DataFrame) -> DataFrame:
    """Write rows by hour and destination, a file for each, and return them as read back."""
    by = {"hour": F.date_format("made_at", "yyyyMMddHH"), "to": F.col("destination")}
    ordered = rows.repartition(*by.values()).sortWithinPartitions(*by.values(), "id")
    commit.stage(MESSAGES, ordered, by=by)
    return lake.rows(spark, MESSAGES, commit.staged(MESSAGES))


def _publish(lake: Lake, commit: Commit, partition: str, contents: Contents, replaces: list[str]) -> Manifest:
    return lake.publish(commit, replaces=replaces, facts={"partition": partition, **contents._asdict()})


def _published(lake: Lake, name: str) -> Manifest:
    found = next((each for each in lake.manifests(LINE) if each.name == name), None)
    if found is None:
        raise JobFailed(
            f"commit {name} of the archive was put together with others, and the store has the same messages again; "
            "nothing was dropped",
            hint="let the store's retention drop them: the archive has them",
        )
    return found


def _damaged(lake: Lake, manifest: Manifest, why: str) -> JobFailed:
    return JobFailed(
        f"the archive of {manifest.facts['partition']} is damaged: {why}; nothing was dropped from the store",
        hint=f"delete {lake.storage.url(lake.manifest_path(manifest))} and run it again, if the store has the messages",
    )
