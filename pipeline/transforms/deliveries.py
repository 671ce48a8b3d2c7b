"""From messages with their deliveries to a row for each delivery."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

OPEN: Final = ("pending", "retrying", "resend")


def deliveries_of(messages: DataFrame) -> DataFrame:
    """Return a row for each delivery of messages (``schemas.MESSAGES``), with the message's id and times."""
    flat = messages.select(
        "id", "made_at", "destination", "arrived", "received_at", "deliver_at", F.explode("deliveries").alias("each")
    )
    return flat.select("id", "made_at", "destination", "arrived", "received_at", "deliver_at", "each.*")


def is_unfinished() -> Column:
    """Return whether something is still to happen to a message (``schemas.MESSAGES``), or only outcomes arrived."""
    return ~F.col("arrived") | F.exists("deliveries", lambda delivery: delivery["status"].isin(*OPEN))
