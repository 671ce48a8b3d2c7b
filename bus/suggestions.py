"""Suggestions for a misspelled name."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most like this one, whatever its case; empty where none is like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - only where something is wrong

    by_folded = {each.casefold(): each for each in known}
    found = get_close_matches(name.casefold(), by_folded, n=1)
    return by_folded[found[0]] if found else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean NAME?``; empty where nothing is like it."""
    meant = nearest(name, known)
    return f"did you mean {meant}?" if meant else ""
