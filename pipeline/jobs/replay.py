"""``replay``: a frozen selection of messages from the archive and the store, and what became of them."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, NamedTuple

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bus.errors import BusError, ConfigurationError
from pipeline.errors import JobFailed
from pipeline.jobs import archive
from pipeline.lake.lake import Commit, Lake
from pipeline.lake.manifest import Manifest
from pipeline.schemas import MESSAGES, REPLAYS
from pipeline.sources.store import read_messages
from pipeline.transforms.deliveries import OPEN
from pipeline.transforms.freezing import frozen

VERSION: Final = 1
LINE: Final = f"replay-v{VERSION}"
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_FAILED: Final = ("dead", "parked")
_OPTIONS: Final = {"where": "--where", "into": "--into", "since": "--from", "before": "--to", "store": "--store"}


class ReplaySelection(NamedTuple):
    """The conditions of a selection.

    Attributes
    ----------
    where
        Conditions in Spark's SQL over the columns of ``schemas.MESSAGES``.
    store
        The bus's store; None for the archive alone.
    since, before
        Of the ids' times, ``before`` exclusive; None for any.
    into
        The destination that gets the copies; None for that of each original.
    """

    where: str
    store: str | None = None
    since: dt.datetime | None = None
    before: dt.datetime | None = None
    into: str | None = None

    def facts(self) -> dict[str, Any]:
        """Return the facts for the manifest, by option; of ``store`` only whether there is one."""
        since, before = (time.isoformat() if time is not None else None for time in (self.since, self.before))
        return {
            "where": self.where,
            "into": self.into,
            "since": since,
            "before": before,
            "store": self.store is not None,
        }


class Balance(NamedTuple):
    """The outcomes of the messages that were accepted, and of their deliveries.

    Attributes
    ----------
    unknown
        Messages that the store does not have, or not yet.
    open, delivered, failed, ended
        Deliveries: not finished yet; delivered; dead or parked; skipped or canceled.
    """

    unknown: int
    open: int
    delivered: int
    failed: int
    ended: int

    @property
    def is_closed(self) -> bool:
        """Whether the store has every message, and each of their deliveries has come to an end."""
        return not (self.unknown or self.open)


def selection(spark: SparkSession, lake: Lake, asked: ReplaySelection) -> DataFrame:
    """Return the messages (``schemas.MESSAGES``) of archive and store that meet the conditions, with their bodies.

    Raises
    ------
    ConfigurationError
        The conditions are no SQL, or name a column that is not there.
    """
    found = lake.read(spark, MESSAGES, line=archive.LINE, since=asked.since, before=asked.before)
    if asked.store is not None:
        stored = read_messages(spark, asked.store, since=asked.since, before=asked.before, bodies=True)
        found = found.unionByName(stored)
    try:
        return found.where("arrived").where(asked.where)
    except (AnalysisException, ParseException) as error:
        raise ConfigurationError(
            f"--where {asked.where!r} is no condition over messages: {str(error).splitlines()[0]}",
            hint="for example: destination = 'orders' and biz_id like 'A-%'",
        ) from error


def freeze(spark: SparkSession, lake: Lake, name: str, asked: ReplaySelection, now: int) -> Manifest:
    """Write a selection down under a name, once and permanently, and return its commit; nothing is sent.

    When another froze the name meanwhile, that selection is in force and returned.

    Raises
    ------
    ConfigurationError
        Another selection has the name, or nothing was selected.
    JobFailed
        A message that was selected has no body that can be read; nothing was frozen.
    """
    commit = lake.begin(LINE, name)
    if commit is not None:
        try:
            selected = _write(spark, lake, commit, asked, now)
        except BusError:
            commit.abandon()
            raise
        lake.publish(commit, facts=asked.facts() | {"frozen_at": now, "selected": selected})
    return known(lake, name, asked)


def known(lake: Lake, name: str, asked: ReplaySelection | None = None) -> Manifest:
    """Return the frozen selection of a name; raises ``ConfigurationError`` when there is none or another one."""
    found = next((each for each in lake.manifests(LINE) if each.name == name), None)
    if found is None:
        raise ConfigurationError(f"there is no replay {name!r}", hint="select messages for it with --where")
    if asked is not None:
        _check_same(found, asked)
    return found


def _check_same(found: Manifest, asked: ReplaySelection) -> None:
    """Check that a selection was frozen with the same conditions; raises ``ConfigurationError``."""
    for name, given in asked.facts().items():
        was = found.facts.get(name)
        if was != given:
            raise ConfigurationError(
                f"replay {found.name!r} was frozen {_frozen_with(_OPTIONS[name], was)}; nothing was sent",
                hint="leave --where, --from, --to and --into out to continue it, or choose another name; "
                "a duration such as 24h is another time with each run",
            )


def _frozen_with(option: str, value: object) -> str:
    return f"without {option}" if value in (None, False) else f"with {option}" + ("" if value is True else f" {value}")


def _write(spark: SparkSession, lake: Lake, commit: Commit, asked: ReplaySelection, now: int) -> int:
    """Stage a selection, and return how many messages it has."""
    copies = frozen(selection(spark, lake, asked), commit.name, now)
    if asked.into is not None:
        copies = copies.withColumn("destination", F.lit(asked.into))
    commit.stage(REPLAYS, copies.orderBy("id"))
    rows = lake.rows(spark, REPLAYS, commit.staged(REPLAYS))
    counts = rows.agg(F.count("*").alias("rows"), F.count(F.when(F.col("body").isNull(), 1)).alias("bare")).collect()[0]
    if counts.rows == 0:
        raise ConfigurationError("no message was selected; nothing was frozen", hint="look at it with --dry-run")
    if counts.bare:
        raise JobFailed(
            f"of {counts.bare} selected messages the body cannot be read; nothing was frozen or sent",
            hint="leave them out with --where, or restore them",
        )
    return int(counts.rows)


def balance(spark: SparkSession, lake: Lake, manifest: Manifest, store: str, accepted: int) -> Balance:
    """Read the traces of what a replay sent: all of its ids were made in one millisecond."""
    at = dt.datetime.fromtimestamp(0, dt.UTC) + manifest.facts["frozen_at"] * _MILLISECOND
    ids = lake.rows(spark, REPLAYS, manifest.tables[REPLAYS.name]).select(F.col("new_id").alias("id"))
    traces = (
        read_messages(spark, store, since=at, before=at + _MILLISECOND).where("arrived").join(ids, "id", "left_semi")
    )
    rows = traces.select("id", F.explode_outer("deliveries.status").alias("status")).groupBy("status")
    counts = {row.status: row["count"] for row in rows.count().collect()}
    there = traces.count()
    by_kind = {kind: sum(counts.get(status, 0) for status in kind) for kind in (OPEN, _FAILED, ("skipped", "canceled"))}
    return Balance(
        unknown=accepted - there,
        open=by_kind[OPEN],
        delivered=counts.get("delivered", 0),
        failed=by_kind[_FAILED],
        ended=by_kind["skipped", "canceled"],
    )
