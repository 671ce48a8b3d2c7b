"""Names of the stream's commits: the number of a batch, or the first and the last of some that were put together."""

from __future__ import annotations

from typing import Final

_TO: Final = "_to_"


def batch_name(first: int, last: int | None = None) -> str:
    """Return the name of the commit of a batch, or of all batches from the first to the last."""
    return f"{first:012d}" if last is None else f"{first:012d}{_TO}{last:012d}"


def batches_of(name: str) -> range:
    """Undo ``batch_name``: return the numbers of the batches; raises ``ValueError`` when it is another name."""
    first, _, last = name.partition(_TO)
    return range(int(first), int(last or first) + 1)


def is_joined(name: str) -> bool:
    """Whether it is the name of batches that were put together."""
    return _TO in name
