"""Tables: at a terminal as many whole columns as fit; in a file or a pipe all columns, separated by tabs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from bus.cli.output import STYLES, console, plain

if TYPE_CHECKING:
    from rich.console import Console

_GAP: Final = 2
_NARROWEST_PROSE: Final = 20
_NEEDED, _STATE, _TIME, _ID, _MORE = range(5)
_RANKS: Final = {"id": _NEEDED, "state": _STATE, "status": _STATE, "received_at": _TIME}
_EXACT_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)\.\d{3}Z")


class Table(NamedTuple):
    """The columns of a table, in their order.

    Attributes
    ----------
    is_fitted
        Whether columns are left out if a terminal is too narrow for all, and times are shown to the second.
    is_wrapped
        Whether sentences are wrapped at a terminal; other cells never are.
    """

    columns: Sequence[str]
    is_fitted: bool
    is_wrapped: bool

    def show(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Print rows under the names of the columns; nothing for a table without columns.

        Except at a terminal, only one row is in memory at a time.
        """
        if not self.columns:
            return
        cells = ([plain(row.get(name)) for name in self.columns] for row in rows)
        out = console()
        if out.is_terminal:
            self._draw(out, [list(map(_short, line)) for line in cells] if self.is_fitted else list(cells))
        else:
            sys.stdout.writelines("\t".join(line) + "\n" for line in chain([self.columns], cells))

    def _draw(self, out: Console, cells: Sequence[Sequence[str]]) -> None:
        columns = [
            _column(place, name, [line[place] for line in cells], is_wrapped=self.is_wrapped)
            for place, name in enumerate(self.columns)
        ]
        shown = _fitting(columns, out.width) if self.is_fitted else columns
        _draw(out, shown)
        left = [column.name for column in columns if column not in shown]
        if left:
            out.print(
                f"hidden columns: {', '.join(left)}; show them with --wide or --columns", style="dim", soft_wrap=True
            )


class _Column(NamedTuple):
    """A column as it is drawn: its widest and narrowest width, and its rank; high ranks are hidden first."""

    name: str
    cells: Sequence[str]
    widest: int
    narrowest: int
    rank: int


def _column(place: int, name: str, cells: Sequence[str], *, is_wrapped: bool) -> _Column:
    from rich.cells import cell_len  # noqa: PLC0415

    is_id = name.endswith("_id")
    rank = _NEEDED if place == 0 else _RANKS.get(name, _ID if is_id else _MORE)
    widest = narrowest = max(map(cell_len, (name, *cells)))
    if is_wrapped and rank != _NEEDED and not is_id:
        longest_word = max(cell_len(word) for text in (name, *cells) for word in text.split())
        narrowest = min(widest, max(longest_word, _NARROWEST_PROSE))
    return _Column(name, cells, widest, narrowest, rank)


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Return those that fit: the id, the state, the time received, other ids, then the others from the left."""
    kept: list[_Column] = []
    for column in sorted(columns, key=lambda column: column.rank):
        if column.rank == _NEEDED or _width([*kept, column]) <= width:
            kept.append(column)
    return [column for column in columns if column in kept]


def _short(cell: str) -> str:
    """Return a time to the second, anything else as it is."""
    return " ".join(exact.groups()) + "Z" if (exact := _EXACT_TIME.fullmatch(cell)) else cell


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.narrowest for column in columns) + _GAP * (len(columns) - 1)


def _draw(out: Console, columns: Sequence[_Column]) -> None:
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415
    from rich.table import Table as Grid  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    spare = max(0, out.width - _width(columns))
    out.width = max(out.width, _width(columns))
    grid = Grid(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column in columns:
        more = min(spare, column.widest - column.narrowest)
        spare -= more
        grid.add_column(column.name, width=column.narrowest + more)
    for line in zip(*(column.cells for column in columns), strict=True):
        grid.add_row(*(Text(cell, STYLES.get(cell, "")) for cell in line))
    out.print(grid)
