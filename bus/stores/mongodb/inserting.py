"""Inserts of which some may be there already."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pymongo.errors import BulkWriteError

from bus.stores.mongodb.connection import Connection, Form
from bus.stores.mongodb.errors import DUPLICATE_KEY, failed_writes
from bus.stores.mongodb.slices import slices


async def insert_new(
    connection: Connection, collection: str, forms: Sequence[Form], size: Callable[[Form], int] | None = None
) -> set[str]:
    """Insert documents and return the ids of those that were there already, and stay as they are.

    Raises
    ------
    StoreUnavailable
        The server did not answer; some may be there.
    StoreError
        It refused one for another reason; the others are there.
    """
    present: set[str] = set()
    for piece in slices(forms, size):
        async with connection.exchange(f"insert into {collection}"):
            try:
                await connection[collection].insert_many(piece, ordered=False)
            except BulkWriteError as error:
                failed = failed_writes(error)
                if error.details["writeConcernErrors"] or any(code != DUPLICATE_KEY for _, code, _ in failed):
                    raise
                present |= {piece[place]["_id"] for place, _, _ in failed}
    return present
