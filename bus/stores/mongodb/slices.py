"""Lists cut into pieces that one exchange with the server can carry within its deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

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
