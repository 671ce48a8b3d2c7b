"""The indexes: made at the start, and for a partition when it is first written to."""

from __future__ import annotations

from typing import Final

from pymongo import ASCENDING, DESCENDING, IndexModel

from bus.domain.delivery.delivery import Status

COMPENSATIONS: Final = "compensations"
DOCUMENTS: Final = "documents"
LANES: Final = "lanes"
META: Final = "meta"
DAMAGED: Final = "damaged"
PREPARED: Final = 600.0  # seconds after which indexes are made again if missing: others may drop their collections

# ``lanes`` of a trace has an entry for each delivery that is not ``delivered``, so that unfinished and failed ones are
# found at once, and the healthy path pays little. ``names`` has what a message is called besides its id and biz
# id.
TRACES: Final = [
    IndexModel([("destination", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("message.biz_id", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("message.source", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("status", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("lanes", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("names", ASCENDING), ("_id", DESCENDING)]),
    IndexModel([("received_at", DESCENDING)]),
]
ROWS: Final = [
    IndexModel([("lane", ASCENDING), ("ready_at", ASCENDING)]),
    IndexModel([("lane", ASCENDING), ("_id", ASCENDING)]),
    IndexModel([("ready_at", ASCENDING)]),
    IndexModel([("owner", ASCENDING)]),
    IndexModel([("set_at", ASCENDING)]),
    IndexModel([("lane", ASCENDING), ("order_key", ASCENDING), ("place", ASCENDING)]),
]

OPEN: Final = (Status.PENDING, Status.RETRYING, Status.RESEND)


def lane_entry(status: Status, lane: str) -> str:
    """Return the entry of ``lanes`` for a delivery; the status comes first, so that a prefix finds all open ones."""
    return f"{status}:{lane}"
