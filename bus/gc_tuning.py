"""The schedule of garbage collection: seldom and little at a time, since a collection stops everything."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# A collection takes some 0.3 us for each object that it looks at: 2,000 young ones, 12,000 that survived once. All
# that were made since the start are looked at after 48,000 more, mostly those of pages: an open page has about 8,000.
_THRESHOLDS: Final = (2_000, 5, 4)


@contextmanager
def lasting() -> Iterator[None]:
    """Have what is made meanwhile, in any thread, taken for what lives as long as the process: it is never looked at.

    For imports and what they make. Garbage in cycles that is there at the end stays, so it is not for what is repeated.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def settle() -> None:
    """Collect what the start left, exclude the rest from collections, and have the later ones small."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
