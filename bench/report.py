"""Rows of figures, each beside a reference of the same run, and whether its ratio reaches the target."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.machine import Machine

COLUMNS = ("section", "figure", "value", "beside", "reference", "ratio", "target", "")
NUMERIC = {"value", "reference", "ratio", "target"}


@dataclass
class Row:
    """One figure.

    Attributes
    ----------
    values, references
        One for each round, measured side by side; a limit is a reference that does not change.
    target
        The ratio to reach in the median of the rounds, None for a figure that is only shown.
    lower
        Whether less is better, so that the target is the most allowed.
    """

    section: str
    figure: str
    values: Sequence[float]
    unit: str
    beside: str
    references: Sequence[float]
    target: float | None = None
    lower: bool = False
    note: str = ""
    value: float = field(init=False)
    reference: float = field(init=False)
    ratio: float = field(init=False)
    ratios: Sequence[float] = field(init=False)

    def __post_init__(self) -> None:
        self.value = statistics.median(self.values)
        self.reference = statistics.median(self.references)
        pairs = zip(self.values, self.references, strict=True)
        self.ratios = [value / reference for value, reference in pairs if reference]
        self.ratio = statistics.median(self.ratios) if self.ratios else math.nan

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None without one."""
        if self.target is None:
            return None
        return self.ratio <= self.target if self.lower else self.ratio >= self.target


def against_limit(section: str, figure: str, values: Sequence[float], unit: str, limit: float, **more: str) -> Row:
    """Return a row whose reference is a fixed limit that must not be passed."""
    limits = [limit] * len(values)
    return Row(section, figure, values, unit, more.pop("beside", "limit"), limits, 1.0, lower=True, **more)


class Report:
    """All rows of a run, what it was measured on, and what could not be measured."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.rows: list[Row] = []
        self.failures: dict[str, str] = {}

    def show(self, console: Console) -> None:
        """Print the table."""
        console.print(str(self.machine), markup=False, highlight=False)
        table = Table(title="Pier beside its references, each pair measured in this run", show_lines=False)
        for name in COLUMNS:
            table.add_column(name, justify="right" if name in NUMERIC else "left", no_wrap=name in NUMERIC)
        for row in self.rows:
            *cells, verdict = _cells(row)
            colour = {"met": "green", "missed": "red"}.get(verdict)
            table.add_row(*cells, f"[{colour}]{verdict}[/{colour}]" if colour else verdict)
        console.print(table)
        for section, reason in self.failures.items():
            console.print(f"[red]{section} was not measured:[/red] {reason}", markup=True, highlight=False)

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        rows = [{**asdict(row), "met": row.met} for row in self.rows]
        document = {"machine": self.machine._asdict(), "rows": rows, "failures": self.failures}
        path.write_text(json.dumps(document, indent=2) + "\n")

    def save_markdown(self, path: Path) -> None:
        """Write a table for each section, as docs have them."""
        parts = [f"{self.machine}.\n"]
        for section in dict.fromkeys(row.section for row in self.rows):
            rows = [_cells(row)[1:] for row in self.rows if row.section == section]
            rules = ["---:" if name in NUMERIC else "---" for name in COLUMNS[1:]]
            lines = "".join(f"| {' | '.join(cells)} |\n" for cells in ([*COLUMNS[1:]], rules, *rows))
            parts.append(f"## {section}\n\n{lines}")
        parts += [f"{section} was not measured: {reason}\n" for section, reason in self.failures.items()]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(parts))


def _cells(row: Row) -> list[str]:
    sign = "<=" if row.lower else ">="
    target = "" if row.target is None else f"{sign} {row.target:.2f}"
    verdict = {None: "", True: "met", False: "missed"}[row.met]
    figure = f"{row.figure} ({row.note})" if row.note else row.figure
    return [
        row.section,
        figure,
        f"{_number(row.value)} {row.unit}",
        row.beside,
        _number(row.reference),
        _ratio(row),
        target,
        verdict,
    ]


def _ratio(row: Row) -> str:
    """Return the median of all rounds, and between which they were."""
    if math.isnan(row.ratio):
        return ""
    low, high = min(row.ratios), max(row.ratios)
    return f"{row.ratio:.2f} ({low:.2f}-{high:.2f})" if f"{low:.2f}" != f"{high:.2f}" else f"{row.ratio:.2f}"


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 1 or not value else f"{value:.3f}"
