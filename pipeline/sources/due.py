"""The deliveries that the compensator has due work for, so that their next attempt is certain."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bus.extras import extra
from bus.stores.address import sqlite_directory
from bus.stores.sqlite.partitions.scanning import scan_due

_SCHEMA: Final = pa.schema([("id", pa.string()), ("subscription", pa.string())])
_PIECE: Final = 100_000


def read_due(spark: SparkSession, store: str) -> DataFrame:
    """Return ``id`` and ``subscription`` of all unfinished work of a store, as it is now.

    It is read at once and before the deliveries, so that one finished in between is not taken for abandoned.

    Raises
    ------
    ConfigurationError
        The address is impossible, or there is no store.
    StoreUnavailable
        The store does not answer.
    """
    directory = sqlite_directory(store)
    return spark.createDataFrame(_columns(scan_due(directory) if directory is not None else _from_mongodb(store)))


def _columns(rows: Iterator[tuple[str, str]]) -> pa.Table:
    """Return rows as columns, at a tenth of the memory of objects: after an outage there are millions."""
    pieces = iter(lambda: list(islice(rows, _PIECE)), [])
    batches = [
        pa.record_batch([pa.array(values, pa.string()) for values in zip(*piece, strict=True)], _SCHEMA)
        for piece in pieces
    ]
    return pa.Table.from_batches(batches, _SCHEMA)


def _from_mongodb(url: str) -> Iterator[tuple[str, str]]:
    with extra("mongodb"):
        from bus.stores.mongodb.indexes import COMPENSATIONS  # noqa: PLC0415
        from pipeline.sources.mongodb import forms_in  # noqa: PLC0415
    for form in forms_in(url, COMPENSATIONS, {}, ["message_id", "subscription"]):
        yield form["message_id"], form["subscription"]
