"""The bus's store, whichever it is, as rows of one schema."""

from __future__ import annotations

import datetime as dt

from pyspark.sql import DataFrame, SparkSession

from bus.domain.tracing.partition import PartitionLabel
from bus.extras import extra
from bus.stores.address import sqlite_directory
from bus.stores.sqlite.partitions.scanning import bytes_in, partitions_in
from pipeline.sources.sqlite import from_sqlite
from pipeline.sources.wanted import MessageSelection


def read_messages(
    spark: SparkSession,
    store: str,
    *,
    since: dt.datetime | None = None,
    before: dt.datetime | None = None,
    bodies: bool = False,
    partition: PartitionLabel | None = None,
) -> DataFrame:
    """Return messages with their deliveries and attempts (``schemas.MESSAGES``); one row for each document.

    Parameters
    ----------
    store
        As the bus's setting ``store`` names it: ``sqlite:///PATH`` or ``mongodb://HOST/DATABASE``.
    since, before
        The range of the ids' times, ``before`` exclusive.
    bodies
        Whether to read bodies too.
    partition
        The only one to read; None for all.

    Raises
    ------
    ConfigurationError
        The address is impossible, or there is no store.
    StoreUnavailable
        The store does not answer.
    """
    wanted = MessageSelection.between(since, before, bodies=bodies, only=partition)
    directory = sqlite_directory(store)
    if directory is not None:
        return from_sqlite(spark, directory, wanted)
    with extra("mongodb"):
        from pipeline.sources.mongodb import from_mongodb  # noqa: PLC0415
    return from_mongodb(spark, store, wanted)


def partitions_of(store: str) -> list[PartitionLabel]:
    """Return the partitions of a store, the oldest first; raises as ``read_messages`` does."""
    directory = sqlite_directory(store)
    if directory is not None:
        return [PartitionLabel(*label) for label in partitions_in(directory)]
    with extra("mongodb"):
        from pipeline.sources.mongodb import labels_in  # noqa: PLC0415
    return [PartitionLabel(*label) for label in labels_in(store)]


def bytes_of_store(store: str, *, since: dt.datetime | None = None, before: dt.datetime | None = None) -> int:
    """Return the size of an embedded store's partitions that have ids of a range; 0 of another store.

    Raises as ``read_messages`` does.
    """
    directory = sqlite_directory(store)
    if directory is None:
        return 0
    wanted = MessageSelection.between(since, before, bodies=False, only=None)
    return bytes_in(
        directory, [label for label in partitions_in(directory) if wanted.may_be_in(PartitionLabel(*label))]
    )
