"""The bus's store, whichever it is, as rows of one schema."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from bus.bootstrap.extras import extra
from bus.errors import ConfigurationError
from pipeline.sources.sqlite import from_sqlite

_MONGODB: Final = ("mongodb://", "mongodb+srv://")
_SQLITE: Final = "sqlite:///"


def read_messages(
    spark: SparkSession,
    store: str,
    *,
    since: dt.datetime | None = None,
    before: dt.datetime | None = None,
    bodies: bool = False,
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

    Raises
    ------
    ConfigurationError
        The address is impossible, or there is no store.
    StoreUnavailable
        The store does not answer.
    """
    if store.startswith(_MONGODB):
        with extra("mongodb"):
            from pipeline.sources.mongodb import from_mongodb  # noqa: PLC0415
        return from_mongodb(spark, store, since=since, before=before, bodies=bodies)
    if not store.startswith(_SQLITE) or store == _SQLITE:
        raise ConfigurationError(
            "the store's address is none that is known",
            hint="give the bus's setting: sqlite:///PATH or mongodb://HOST/DATABASE",
        )
    return from_sqlite(spark, Path(store.removeprefix(_SQLITE)), since=since, before=before, bodies=bodies)
