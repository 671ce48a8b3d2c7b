"""Fuzz targets: for each parser a check that holds for every input, and first examples."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A parser.

    Attributes
    ----------
    check
        Raises for an input that breaks it: with what it does not document, or because more does not hold: how a stream
        is cut changes nothing, what was read is written as it was, another parser agrees, a limit holds.
    examples
        Inputs to begin with.
    """

    check: Callable[[bytes], object]
    examples: Sequence[bytes]


def halves(data: bytes) -> list[bytes]:
    """Cut an input at a place that its own bytes choose."""
    at = zlib.crc32(data) % (len(data) + 1)
    return [piece for piece in (data[:at], data[at:]) if piece]
