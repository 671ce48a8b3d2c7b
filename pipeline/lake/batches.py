"""The stream's lines, and the names of its commits.

A commit is named by the number of a batch, or by the first and the last number of batches that were joined.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

READ_VERSION: Final = 1
ROLLUP_VERSION: Final = 1
READ_LINE: Final = f"read-v{READ_VERSION}"
"""The line of what was read: a greater version starts from a new checkpoint."""
ROLLUP_LINE: Final = f"rollup-v{ROLLUP_VERSION}"
"""The line of the rollups: a greater version is built from what was read, all of it (``rebuild``)."""
_TO: Final = "_to_"


def batch_name(first: int, last: int | None = None) -> str:
    """Return the name of the commit of a batch, or of all batches from the first to the last."""
    return f"{first:012d}" if last is None else f"{first:012d}{_TO}{last:012d}"


def batches_of(name: str) -> range:
    """Undo ``batch_name``: return the numbers of the batches; raises ``ValueError`` when it is another name."""
    first, _, last = name.partition(_TO)
    return range(int(first), int(last or first) + 1)


def is_joined(name: str) -> bool:
    """Whether it is the name of a commit that joins several batches."""
    return _TO in name


def batches_in(names: Iterable[str]) -> set[int]:
    """Return the numbers of the batches of commits."""
    return {number for name in names for number in batches_of(name)}
