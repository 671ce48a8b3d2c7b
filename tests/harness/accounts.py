"""A small world of messages for the proof: what their events say, and what a store has of them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bus.domain.identity import new_id
from pipeline.transforms.accounting import accounted
from pipeline.transforms.stored import Store
from pipeline.transforms.witnesses import said_by_events, said_by_store, with_last_word
from tests.harness.trace_lines import Event, accepted, published, settled

STORED = (
    "id string, made_at timestamp, destination string, deliver_at timestamp, subscription string, status string, "
    "generation int, at timestamp, reason string, due_at timestamp, attempts array<struct<id:string,n:int,"
    "started_at:timestamp,status_code:int,error:string>>, archived boolean"
)
_CONFIGURED = (
    "destination string, retention_days int, destination_paused string",
    "destination string, subscription string, subscription_paused string",
)


def moment(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)


def delivered_messages(start: int, count: int, step: int = 100, *subscriptions: str) -> list[Event]:
    """Return the events of messages that were all accepted, published and delivered."""
    return [event for place in range(count) for event in one_message(start + place * step, *subscriptions)]


def one_message(at: int, *subscriptions: str, **fields: Any) -> list[Event]:
    """Return the events of one delivered message; ``fields`` change its end."""
    message_id, names = new_id(at), subscriptions or ("shop",)
    ends = [settled(at + 20, id=message_id, subscription=name, attempt_id=f"{message_id}/{name}") for name in names]
    return [
        accepted(at + 5, *names, id=message_id),
        published(at + 10, id=message_id),
        *({**end, **fields} for end in ends),
    ]


def without(events: Iterable[Event], ends: Iterable[tuple[str, str]]) -> list[Event]:
    """Leave out the ends of some deliveries."""
    gone = set(ends)
    return [
        event for event in events if event["stage"] != "settled" or (event["id"], event["subscription"]) not in gone
    ]


def ends_of(events: Iterable[Event]) -> list[tuple[str, str]]:
    return [(event["id"], event["subscription"]) for event in events if event["stage"] == "settled"]


def stored(spark: SparkSession, rows: Sequence[dict[str, Any]]) -> DataFrame:
    """Return deliveries as the store has them, and their messages; what is left out is as of one delivered."""
    given = []
    for row in rows:
        made_at = made_at_of(row["id"])
        attempt = {"id": "a", "n": 1, "started_at": made_at, "status_code": 200, "error": ""}
        plain = {"destination": "orders", "subscription": "shop", "status": "delivered", "generation": 0, "reason": ""}
        more = {"made_at": made_at, "at": made_at, "deliver_at": None, "due_at": None, "attempts": [attempt]}
        known = {name: value for name, value in row.items() if name != "owned"}
        given.append({**plain, **more, "archived": False, **known})
    return spark.createDataFrame([*given, *_messages_of(given)], STORED)


def _messages_of(deliveries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of messages as a whole: all arrived."""
    whole = {"subscription": "", "status": "arrived", "generation": 0, "attempts": []}
    found = {(row["id"], row["destination"], row["archived"]): {**row, **whole} for row in deliveries}
    return list(found.values())


def witness(
    spark: SparkSession,
    rows: Sequence[dict[str, Any]],
    *,
    retention: Mapping[str, int],
    paused: Mapping[tuple[str, str], str] | None = None,
    due: Iterable[tuple[str, str]] = (),
) -> Store:
    """Return a store as a witness.

    ``retention`` has the days of each destination, ``paused`` why one of its subscriptions is paused, or with an empty
    name all of it. The compensator has what is ``due``, and of the rows those that are ``owned``, as what retries is.
    """
    names = [(row["id"], row.get("subscription", "shop")) for row in rows if row.get("owned", _retries(row))]
    by_order = paused or {}
    destinations = [(code, days, by_order.get((code, ""))) for code, days in retention.items()]
    subscriptions = [(*key, why) for key, why in by_order.items() if key[1]]
    return Store(
        stored(spark, rows),
        spark.createDataFrame([*names, *due], "id string, subscription string"),
        spark.createDataFrame(destinations, _CONFIGURED[0]),
        spark.createDataFrame(subscriptions, _CONFIGURED[1]),
    )


def look_into(
    events: DataFrame, store: Store | None, buckets: DataFrame, now: dt.datetime, allowance: int
) -> DataFrame:
    """Return what level two finds of each delivery of buckets."""
    words, due = said_by_events(events, buckets), store.due if store is not None else None
    if store is not None:
        words = words.unionByName(said_by_store(store.deliveries, buckets))
    return with_last_word(accounted(words, buckets, due, now, allowance), events)


def made_at_of(message_id: str) -> dt.datetime:
    return moment(int(message_id[:8] + message_id[9:13], 16))


def _retries(row: dict[str, Any]) -> bool:
    return row.get("status") in ("retrying", "resend")
