"""The store in MongoDB, read through Spark's connector: its documents as rows, with expressions of the JVM only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import reduce
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from pymongo import MongoClient
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from bus.domain.identity import id_floor
from bus.domain.tracing.partition import PartitionLabel
from bus.stores.mongodb.connection import DATABASE
from bus.stores.mongodb.errors import translating
from bus.stores.mongodb.names import Label, label_of_traces
from pipeline.schemas import MESSAGES
from pipeline.sources.wanted import TEXTS, MessageSelection

_PACKAGE: Final = "com.mongodb.spark.sql.connector.read.partitioner"
_WHOLE: Final = f"{_PACKAGE}.SinglePartitionPartitioner"
_SAMPLED: Final = f"{_PACKAGE}.SamplePartitioner"
_DEADLINES: Final = {"serverSelectionTimeoutMS": "10000", "socketTimeoutMS": "300000"}


class Server(NamedTuple):
    """The address of the documents, and the partitioning of a collection into Spark's tasks."""

    url: str
    database: str
    partitioner: str


def from_mongodb(spark: SparkSession, url: str, wanted: MessageSelection) -> DataFrame:
    """Return messages (``schemas.MESSAGES``) of a database; raises ``StoreUnavailable`` when no server is found."""
    server, labels = _look(url)
    found = [label for label in labels if wanted.may_be_in(PartitionLabel(*label))]
    frames = [_partition(spark, server, label, wanted) for label in found]
    return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], MESSAGES.schema)


def labels_in(url: str) -> list[Label]:
    """Return the partitions of a database, the oldest first; raises ``StoreUnavailable`` when no server is found."""
    return _look(url)[1]


def forms_in(url: str, collection: str, condition: dict[str, Any], fields: list[str]) -> Iterator[dict[str, Any]]:
    """Give some fields of the documents of a collection; raises ``StoreUnavailable`` when no server is found."""
    client: MongoClient[dict[str, Any]] = MongoClient(with_deadlines(url))
    try:
        with translating(f"read {collection}"):
            yield from client.get_default_database(DATABASE)[collection].find(condition, fields)
    finally:
        client.close()


def with_deadlines(url: str) -> str:
    """Return an address with timeouts for all drivers; those that it has already stay."""
    parts = urlsplit(url)
    given = {name.lower() for name, _ in parse_qsl(parts.query)}
    added = urlencode({name: value for name, value in _DEADLINES.items() if name.lower() not in given})
    query = "&".join(part for part in (parts.query, added) if part)
    return urlunsplit(parts._replace(path=parts.path or "/", query=query))


def _look(url: str) -> tuple[Server, list[Label]]:
    url = with_deadlines(url)
    with translating("list the collections"):
        client: MongoClient[dict[str, Any]] = MongoClient(url)
        try:
            database = client.get_default_database(DATABASE)
            hello = client.admin.command("hello")
            # Partitioning by samples needs a replica set or a router; another server is read in one partition.
            sampled = "setName" in hello or hello.get("msg") == "isdbgrid"
            names = database.list_collection_names(filter={"name": {"$regex": "^traces_"}})
            server = Server(url, database.name, _SAMPLED if sampled else _WHOLE)
        finally:
            client.close()
    return server, sorted(label for name in names if (label := label_of_traces(name)) is not None)


def _partition(spark: SparkSession, server: Server, label: Label, wanted: MessageSelection) -> DataFrame:
    traces = _rows(_collection(spark, server, label.traces, _TRACE, wanted), label)
    if not wanted.bodies:
        return traces.withColumn("body", F.lit(None).cast("binary")).select(*MESSAGES.schema.names)
    parts = _collection(spark, server, label.bodies, _PART, wanted)
    return _with_bodies(traces, parts).select(*MESSAGES.schema.names)


def _collection(
    spark: SparkSession, server: Server, name: str, schema: StructType, wanted: MessageSelection
) -> DataFrame:
    ends = (("$gte", wanted.since), ("$lt", wanted.before))
    between = {operator: id_floor(time) for operator, time in ends if time is not None}
    reader = (
        spark.read.format("mongodb")
        .schema(schema)
        .option("connection.uri", server.url)
        .option("database", server.database)
        .option("collection", name)
        .option("partitioner", server.partitioner)
    )
    if between:
        reader = reader.option("aggregation.pipeline", json.dumps([{"$match": {"_id": between}}]))
    return reader.load()


def _with_bodies(traces: DataFrame, parts: DataFrame) -> DataFrame:
    """Join messages with their bodies, from the parts ``ID/NAME/NUMBER``; null where the length is wrong."""
    named = parts.select(
        F.substring_index("_id", "/", 2).alias("place"),
        F.struct(F.substring_index("_id", "/", -1).cast("int").alias("number"), "bytes").alias("part"),
    )
    ordered = F.array_sort(F.collect_list("part"))
    whole = F.aggregate(ordered, F.lit(b""), lambda joined, part: F.concat(joined, part["bytes"]))
    bodies = named.groupBy("place").agg(whole.alias("joined"))
    placed = traces.withColumn("place", F.concat_ws("/", "id", "reference"))
    body = F.coalesce("joined", F.lit(b""))
    return placed.join(bodies, "place", "left").withColumn("body", F.when(F.length(body) == F.col("body_bytes"), body))


def _rows(forms: DataFrame, label: Label) -> DataFrame:
    message = F.col("message")
    stamp = F.concat(F.substring("_id", 1, 8), F.substring("_id", 10, 4))
    no_headers = F.create_map().cast("map<string,string>")
    headers = F.map_from_entries(message["headers"])
    return forms.select(
        F.col("_id").alias("id"),
        F.timestamp_millis(F.conv(stamp, 16, 10).cast("bigint")).alias("made_at"),
        "destination",
        F.lit(label.retention_days).alias("retention_days"),
        message.isNotNull().alias("arrived"),
        *[F.coalesce(message[name], F.lit("")).alias(name) for name in TEXTS],
        F.coalesce(headers, no_headers).alias("headers"),
        *[_time(message[name]).alias(name) for name in ("sent_at", "received_at", "deliver_at")],
        F.coalesce(message["expected"], F.array().cast("array<string>")).alias("expected"),
        F.coalesce(F.col("body.bytes"), F.lit(0)).alias("body_bytes"),
        F.coalesce(F.col("body.ref"), F.lit("")).alias("reference"),
        F.transform("deliveries", _delivery).alias("deliveries"),
    )


def _delivery(form: Column) -> Column:
    return F.struct(
        form["subscription"].alias("subscription"),
        form["status"].alias("status"),
        _number(form, "generation"),
        _number(form, "attempts_made"),
        _time(form["at"]).alias("at"),
        _text(form, "reason"),
        _time(form["due_at"]).alias("due_at"),
        _text(form, "url"),
        F.transform(F.coalesce(form["attempts"], F.array()), _attempt).alias("attempts"),
        F.transform(F.coalesce(form["resends"], F.array()), _resend).alias("resends"),
    )


def _attempt(form: Column) -> Column:
    return F.struct(
        form["id"].alias("id"),
        form["n"].alias("n"),
        form["by"].alias("by"),
        _time(form["started_at"]).alias("started_at"),
        form["duration"].alias("duration_ms"),
        form["phases"].alias("phases_ms"),
        form["status_code"].alias("status_code"),
        _text(form, "error"),
        F.coalesce(form["response"], F.lit(b"")).alias("response"),
        _text(form, "node"),
        _number(form, "generation"),
        _time(form["taken_at"]).alias("taken_at"),
    )


def _resend(form: Column) -> Column:
    return F.struct(
        _number(form, "generation"),
        *[_text(form, name) for name in ("job", "by", "reason")],
        _time(form["at"]).alias("at"),
    )


def _text(form: Column, name: str) -> Column:
    return F.coalesce(form[name], F.lit("")).alias(name)


def _number(form: Column, name: str) -> Column:
    return F.coalesce(form[name], F.lit(0)).alias(name)


def _time(milliseconds: Column) -> Column:
    """Return a time; 0, or nothing, stands for none that is known."""
    return F.when(milliseconds != 0, F.timestamp_millis(milliseconds))


def _form(**fields: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in fields.items()])


def _stored(kind: DataType) -> DataType:
    """Return a column's type in a document, where times are milliseconds as numbers."""
    if isinstance(kind, ArrayType):
        return ArrayType(_stored(kind.elementType))
    if isinstance(kind, StructType):
        return _form(**{_NAMES.get(field.name, field.name): _stored(field.dataType) for field in kind})
    return _LONG if isinstance(kind, TimestampType) else kind


_NAMES: Final = {"duration_ms": "duration", "phases_ms": "phases"}
_TEXT, _LONG = StringType(), LongType()
_MESSAGE: Final = _form(
    **dict.fromkeys(TEXTS, _TEXT),
    headers=ArrayType(_form(name=_TEXT, value=_TEXT)),
    expected=ArrayType(_TEXT),
    **dict.fromkeys(("sent_at", "received_at", "deliver_at"), _LONG),
)
_TRACE: Final = _form(
    _id=_TEXT,
    destination=_TEXT,
    message=_MESSAGE,
    body=_form(ref=_TEXT, bytes=_LONG),
    deliveries=_stored(MESSAGES.schema["deliveries"].dataType),
)
_PART: Final = _form(_id=_TEXT, bytes=BinaryType())
