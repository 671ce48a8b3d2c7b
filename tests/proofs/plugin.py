"""Runs one part of the proofs: ``python -m pytest -p tests.proofs.plugin --part kills``."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Generator, Sequence
from typing import Final

import msgspec
import pytest
from rich.console import Console
from rich.table import Table

from tests.proofs.figures import Figures, take
from tests.proofs.history import Outcome, Row, Run, append, this_commit, this_machine, together
from tests.proofs.parts import PARTS, part_of

_KEY: Final = "figures of the proof"
_COLUMNS: Final = Figures.__struct_fields__


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the parts."""
    parser.addoption("--part", choices=PARTS, help="run this part of the proofs, and keep its figures")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the run of a part."""
    if part := config.getoption("--part"):
        config.pluginmanager.register(Proof(part, is_whole=_is_whole(config)), "proof")


def _is_whole(config: pytest.Config) -> bool:
    """Whether nothing leaves a proof out: no choice on the command line, and no end at the first failure."""
    options = ("keyword", "file_or_dir", "deselect", "ignore", "lf", "maxfail")
    return not any(config.getoption(name, None) for name in options)


class Proof:
    """One run of a part; it is kept when it is whole. A proof that was skipped fails it."""

    def __init__(self, part: str, *, is_whole: bool) -> None:
        self._part = part
        self._is_whole = is_whole
        self._at = dt.datetime.now(dt.UTC)
        self._commit = this_commit()  # of what is about to run, whatever is committed meanwhile
        self._started = time.monotonic()
        self._rows: dict[str, Row] = {}
        self._run: Run | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leave out what is no proof, and no property that is tried with many examples, or is of another part."""
        mine = [item for item in items if _is_proof(item) and part_of(item.nodeid) == self._part]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(mine)])
        items[:] = mine

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Take what was noted while the test ran along with its report."""
        report = yield
        report.user_properties.append((_KEY, take()))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a proof to its row."""
        before = self._rows.get(report.nodeid) or Row(report.nodeid, "passed", 0.0, Figures())
        figures = sum((found for key, found in report.user_properties if key == _KEY), Figures())
        outcome = before.outcome if report.passed or before.outcome == "failed" else report.outcome
        self._rows[report.nodeid] = Row(
            report.nodeid, outcome, before.seconds + report.duration, before.figures + figures
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep the figures."""
        if not self._rows:
            return
        if session.exitstatus == pytest.ExitCode.OK and any(row.outcome != "passed" for row in self._rows.values()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        rows = together(self._rows.values())
        commit, dirty = self._commit
        self._run = Run(
            at=self._at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            part=self._part,
            commit=commit,
            dirty=dirty,
            machine=this_machine(),
            outcome=_outcome(session.exitstatus),
            seconds=round(time.monotonic() - self._started, 1),
            totals=sum((row.figures for row in rows), Figures()),
            rows=rows,
        )
        if self._is_whole:
            append(self._run)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the table."""
        if self._run is None:
            return
        kept = f"a line of docs/proofs/{self._part}.jsonl" if self._is_whole else "not kept: something was left out"
        terminalreporter.section(f"proof of {self._part}: {self._run.outcome}; {kept}")
        console = Console(file=terminalreporter._tw._file, width=160)  # pytest has no public way to its own output
        console.print(_table(self._run.rows, self._run.totals, self._run.seconds))


def _is_proof(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("proof", "hypothesis"))


def _outcome(status: int) -> Outcome:
    known: dict[int, Outcome] = {pytest.ExitCode.OK: "passed", pytest.ExitCode.INTERRUPTED: "broken off"}
    return known.get(status, "failed")


def _table(rows: Sequence[Row], totals: Figures, seconds: float) -> Table:
    table = Table("proof", "", "cases", *_COLUMNS, "seconds", show_footer=True)
    for column in table.columns[2:]:
        column.justify = "right"
    for row in rows:
        # What counted nothing is no zero.
        counted = [str(count) if row.figures != Figures() else "" for count in msgspec.structs.astuple(row.figures)]
        table.add_row(row.name.removeprefix("tests/"), row.outcome, str(row.cases), *counted, f"{row.seconds:.0f}")
    cases = sum(row.cases for row in rows)
    footers = ["total", "", str(cases), *map(str, msgspec.structs.astuple(totals)), f"{seconds:.0f}"]
    for column, text in zip(table.columns, footers, strict=True):
        column.footer = text
    return table
