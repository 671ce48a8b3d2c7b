"""Inserts of which some may be there already, in pieces that one exchange with the server can carry in time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from pymongo.errors import BulkWriteError

from bus.stores.mongodb.connection import Collection, Connection, Form
from bus.stores.mongodb.errors import DUPLICATE_KEY, failed_writes

Item = TypeVar("Item")

MOST: Final = 500
MOST_BYTES: Final = 8 * 2**20


def slices(
    items: Sequence[Item], size: Callable[[Item], int] | None = None, *, most: int = MOST
) -> Iterator[list[Item]]:
    """Give the items in order, at most ``most`` at once, and at most ``MOST_BYTES`` unless one item has more."""
    piece: list[Item] = []
    weight = 0
    for item in items:
        own = size(item) if size is not None else 0
        if piece and (len(piece) >= most or weight + own > MOST_BYTES):
            yield piece
            piece, weight = [], 0
        piece.append(item)
        weight += own
    if piece:
        yield piece


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
        present |= await connection.exchange(
            f"insert into {collection}", partial(_insert, connection[collection], piece)
        )
    return present


async def _insert(into: Collection, forms: Sequence[Form]) -> set[str]:
    """Insert documents and return the ids of those that were there already; raises the driver's errors."""
    try:
        await into.insert_many(forms, ordered=False)
    except BulkWriteError as error:
        failed = failed_writes(error)
        if error.details["writeConcernErrors"] or any(code != DUPLICATE_KEY for _, code, _ in failed):
            raise
        return {forms[place]["_id"] for place, _, _ in failed}
    return set()
