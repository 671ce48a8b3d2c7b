"""Requirements, inputs that show them, and verdicts: other pieces of an input, and a table as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

_LONGEST: Final = 60
_MANY: Final = 4_000


def cut_anew(pieces: Sequence[bytes]) -> list[bytes]:
    """Return the same bytes one by one, or in pieces of a third if they are many."""
    whole = b"".join(pieces)
    size = 1 if len(whole) < _MANY else len(whole) // 3 + 1
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def escaped(data: bytes) -> str:
    """Return bytes as a line of text, cut to 60 characters."""
    text = repr(data)[2:-1].replace("|", "\\|").replace("`", "'")
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
