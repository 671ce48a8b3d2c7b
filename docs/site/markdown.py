"""Markdown as it is written by code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with an empty line behind it; cells are Markdown."""
    return [_row(columns), _row(["---"] * len(columns)), *map(_row, rows), ""]


def code(text: object) -> str:
    """Return text as it is typed or read by programs; nothing for nothing."""
    shown = str(text)
    if not shown:
        return ""
    return f"`` {shown} ``" if "`" in shown else f"`{shown}`"


def words(text: str) -> str:
    """Return a sentence of the code as Markdown: names in it that stand in double backquotes are code."""
    return " ".join(text.split()).replace("``", "`").replace("<", "&lt;")


def shell(text: str) -> list[str]:
    """Return the lines of a block of commands, with an empty line behind it."""
    return ["```sh", *text.strip("\n").splitlines(), "```", ""]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
