"""From messages with their deliveries to a row for each of them."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline.schemas import DELIVERY

OPEN: Final = ("pending", "retrying", "resend")
WHOLE: Final = ""
"""The subscription of the row of a message as a whole."""
ARRIVED: Final = "arrived"
OUTCOMES_ONLY: Final = "outcomes only"


def deliveries_of(messages: DataFrame) -> DataFrame:
    """Return rows for messages (``schemas.MESSAGES``): one for each delivery, and one for each message as a whole.

    The status of a message as a whole is ``arrived``, or ``outcomes only`` while the store has no more of it.
    """
    status = F.when(F.col("arrived"), ARRIVED).otherwise(OUTCOMES_ONLY)
    fields = {"subscription": F.lit(WHOLE), "status": status, "generation": F.lit(0), "at": F.col("received_at")}
    whole = F.from_json(F.lit("{}"), DELIVERY).withField("reason", F.lit(""))
    for name, value in fields.items():
        whole = whole.withField(name, value)
    rows = F.explode(F.concat(F.array(whole), "deliveries")).alias("each")
    return messages.select("id", "made_at", "destination", "arrived", "received_at", "deliver_at", rows).select(
        "id", "made_at", "destination", "arrived", "received_at", "deliver_at", "each.*"
    )


def is_unfinished() -> Column:
    """Return whether something is still to happen to a message (``schemas.MESSAGES``), or only outcomes arrived."""
    return ~F.col("arrived") | F.exists("deliveries", lambda delivery: delivery["status"].isin(*OPEN))
