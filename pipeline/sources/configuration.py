"""The bus's configuration in its store: which deliveries a person has paused, and how long messages are kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bus.domain.catalog import Catalog
from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.extras import extra
from bus.registry import DESTINATIONS, SUBSCRIPTIONS
from bus.stores.address import sqlite_directory
from bus.stores.sqlite.partitions.scanning import scan_documents

_DESTINATION: Final = pa.schema(
    {"destination": pa.string(), "retention_days": pa.int32(), "destination_paused": pa.string()}
)
_SUBSCRIPTION: Final = pa.schema(
    {"destination": pa.string(), "subscription": pa.string(), "subscription_paused": pa.string()}
)
_PAUSED: Final = "the destination is paused"


def read_catalog(store: str) -> Catalog:
    """Return the destinations and subscriptions of a store, as they are now; secrets stay sealed.

    Raises
    ------
    ConfigurationError
        The address is impossible, or there is no store.
    StoreUnavailable
        The store does not answer.
    """
    destinations = [msgspec.json.decode(value, type=Destination) for value in _documents(store, DESTINATIONS)]
    subscriptions = [msgspec.json.decode(value, type=Subscription) for value in _documents(store, SUBSCRIPTIONS)]
    return Catalog(destinations, subscriptions)


def configured(spark: SparkSession, catalog: Catalog) -> tuple[DataFrame, DataFrame]:
    """Return the destinations and the subscriptions as frames for ``transforms.stored.Store``."""
    destinations = [
        (code, found.retention_days, _PAUSED if found.paused else None) for code, found in catalog.destinations.items()
    ]
    subscriptions = [
        (*key, found.paused_reason if found.paused else None) for key, found in catalog.subscriptions.items()
    ]
    return spark.createDataFrame(_table(destinations, _DESTINATION)), spark.createDataFrame(
        _table(subscriptions, _SUBSCRIPTION)
    )


def _table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    """Return rows as columns, which Spark takes without a job."""
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def _documents(store: str, collection: str) -> Iterator[bytes]:
    directory = sqlite_directory(store)
    return scan_documents(directory, collection) if directory is not None else _from_mongodb(store, collection)


def _from_mongodb(url: str, collection: str) -> Iterator[bytes]:
    with extra("mongodb"):
        from bus.stores.mongodb.indexes import DOCUMENTS  # noqa: PLC0415
        from pipeline.sources.mongodb import forms_in  # noqa: PLC0415
    for form in forms_in(url, DOCUMENTS, {"collection": collection}, ["value"]):
        yield form["value"]
