"""From messages to what a replay sends: the same messages under new ids, which are derived from theirs."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.schemas import REPLAYS

_NOISE: Final = 20  # hexadecimal digits of which ``bus.domain.identity.new_id`` makes an id


def frozen(messages: DataFrame, name: str, at: int) -> DataFrame:
    """Return the rows that a replay sends of messages (``schemas.MESSAGES``), once each: ``schemas.REPLAYS``.

    One that waits for its time keeps it, and its copy waits as long.

    Parameters
    ----------
    name
        Of the replay.
    at
        When the selection was frozen (ms): the time of the new ids.
    """
    once = messages.dropDuplicates(["id"])
    waits = F.when(F.col("deliver_at") > F.timestamp_millis(F.lit(at)), F.col("deliver_at"))
    return once.withColumns({"new_id": new_id(name, at), "deliver_at": waits}).select(*REPLAYS.schema.names)


def new_id(name: str, at: int) -> Column:
    """Return the id that a message gets in a replay, derived from the replay and the message's own id."""
    stamp = f"{at:012x}"
    noise = F.sha2(F.concat(F.lit(f"{name}/"), F.col("id")), 256)
    variant = F.conv(F.substring(noise, 4, 1), 16, 10).cast("int").bitwiseAND(F.lit(3))
    return F.concat(
        F.lit(f"{stamp[:8]}-{stamp[8:]}-7"),
        F.substring(noise, 1, 3),
        F.lit("-"),
        F.substring(F.lit("89ab"), variant + 1, F.lit(1)),
        F.substring(noise, 5, 3),
        F.lit("-"),
        F.substring(noise, 8, _NOISE - 8),
    )
