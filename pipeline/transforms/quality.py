"""Checks of the stream's events; failures are counted in the pass that writes the events."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

_WEEK_US: Final = 7 * 24 * 3600 * 1_000_000


def checks() -> dict[str, Column]:
    """Return what must hold for every event (``schemas.EVENTS``), by name; none is ever null."""
    settled = F.col("stage") == "settled"
    return {
        "in time": F.col("verdict") == "good",
        "settled names a subscription": ~settled | (F.col("subscription") != ""),
        "settled names a status": ~settled | (F.col("status") != ""),
        "a post has an id": ~settled | (F.col("attempt") == 0) | (F.col("attempt_id") != ""),
        "a delivered post has a 2xx": (F.col("status") != "delivered")
        | (F.col("attempt") == 0)
        | F.col("code").between(200, 299),
        "latency is possible": F.col("latency_us").between(-1, _WEEK_US * 5),
        "size is possible": F.col("bytes") >= 0,
        "happened after the id was made": F.col("at") >= F.col("sent_minute"),
    }
