"""Keeps the suite fast: shows the slowest tests, and fails a run in which a test or a folder has grown slow.

Machines differ and have neighbours, so nothing here compares seconds with seconds of another day. A folder has a share
of the whole (``budget.toml``), and what a test may take grows with what the whole took. Beside other work even that is
unjust, for what computes on all cores then slows more than what waits: the findings are told, and fail nothing.
"""

from __future__ import annotations

import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Final

import pytest

BUDGET: Final = Path(__file__).with_name("budget.toml")
LONGEST: Final = 15.0  # seconds of one test, when the whole takes as long as the budget
CROWDED: Final = 1.5  # seconds in which a process gets one of CPU: here other work decides which tests are slow
_PROBE: Final = 0.3  # seconds of CPU
_SHARED: Final = "seconds of shared fixtures"
SHOWN: Final = 20
# A folder may have so much more than its share: half as much, and as much of the whole as one slow test is.
_MORE: Final = 1.5
_SLACK: Final = 0.02

Times = Mapping[str, float]


def read_budget(path: Path = BUDGET) -> dict[str, float]:
    """Return the seconds of each folder on the day when the budget was written."""
    return dict(tomllib.loads(path.read_text())["seconds"])


def folder_of(nodeid: str, budget: Times) -> str | None:
    """Return the folder whose budget a test counts for, the deepest that there is; None when it has none."""
    path = nodeid.split("::", 1)[0]
    return max((folder for folder in budget if path.startswith(f"{folder}/")), key=len, default=None)


def crowding() -> float:
    """Return in how many seconds this process gets one of CPU; to be asked while no test runs."""
    begun, used = time.monotonic(), time.process_time()
    while time.process_time() < used + _PROBE:
        sum(range(10_000))
    return (time.monotonic() - begun) / (time.process_time() - used)


def complaints(calls: Times, wholes: Times, budget: Times) -> list[str]:
    """Return what has grown too slow in a whole run.

    Parameters
    ----------
    calls
        Seconds of each test itself and of its own fixtures, by its id: what shared fixtures take is nobody's own.
    wholes
        Seconds of each test with its fixtures.
    budget
        Seconds of each folder; only their shares count, and their sum says how slow this machine is today.
    """
    slowness = max(1.0, sum(wholes.values()) / sum(budget.values()))
    limit = LONGEST * slowness
    found = [
        f"{nodeid} took {seconds:.1f} s of at most {limit:.1f}: make it faster, or mark it `proof` and keep a small one"
        for nodeid, seconds in calls.items()
        if seconds > limit
    ]
    return found + _folders(wholes, budget)


def _folders(wholes: Times, budget: Times) -> list[str]:
    spent: defaultdict[str | None, float] = defaultdict(float)
    for nodeid, seconds in wholes.items():
        spent[folder_of(nodeid, budget)] += seconds
    homeless = spent.pop(None, 0.0)
    whole, planned = sum(spent.values()), sum(budget.values())
    found = [f"tests of {homeless:.1f} s are in no folder of {BUDGET.name}: give theirs a line"] if homeless else []
    for folder, seconds in spent.items():
        share, allowed = seconds / whole, budget[folder] / planned * _MORE + _SLACK
        if share > allowed:
            found.append(
                f"{folder} took {share:.0%} of the whole, at most {allowed:.0%} by {BUDGET.name}: move what is slow"
                " down a layer or to `proof`, or give it more and say why"
            )
    return found


class OwnFixtures:
    """Tells in the report of a test's set-up what fixtures took that it shares with others; wherever tests run."""

    def __init__(self) -> None:
        self._shared = 0.0

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Measure those that outlive a test; what they need is set up before them."""
        begun = time.monotonic()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                self._shared += time.monotonic() - begun

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Take it along."""
        report = yield
        report.user_properties.append((_SHARED, self._shared))
        self._shared = 0.0
        return report


class Guard:
    """Adds up what tests take; ``enforce`` fails the run, which is for whole runs only.

    Parameters
    ----------
    crowding
        Tells how busy others keep the machine; asked before the first test and after the last.
    """

    def __init__(self, *, enforce: bool, crowding: Callable[[], float] = crowding) -> None:
        self._enforce = enforce
        self._crowding = crowding
        self._crowds: list[float] = []
        self._calls: defaultdict[str, float] = defaultdict(float)
        self._wholes: defaultdict[str, float] = defaultdict(float)
        self._complaints: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count one phase of a test."""
        self._wholes[report.nodeid] += report.duration
        if "proof" not in report.keywords:
            shared = sum(seconds for name, seconds in report.user_properties if name == _SHARED)
            # What is taken down last of all is what was shared.
            self._calls[report.nodeid] += 0.0 if report.when == "teardown" else report.duration - shared

    def pytest_sessionstart(self) -> None:
        """See whether the machine is free."""
        if self._enforce:
            self._crowds.append(self._crowding())

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run when something has grown too slow."""
        if not self._enforce or not self._wholes:
            return
        self._crowds.append(self._crowding())
        self._complaints = complaints(self._calls, self._wholes, read_budget())
        if self._complaints and not self._is_crowded and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @property
    def _is_crowded(self) -> bool:
        return max(self._crowds, default=1.0) > CROWDED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show the slowest tests, the folders, and what is held against the run."""
        if len(self._wholes) > SHOWN:
            self._show_slowest(terminalreporter)
        if self._enforce and self._wholes:
            self._show_folders(terminalreporter)
        if self._complaints:
            waits = " and ".join(f"{crowd:.2f}" for crowd in self._crowds)
            beside = (
                f" beside other work (a second of CPU took {waits}): this fails nothing" if self._is_crowded else ""
            )
            terminalreporter.section(f"grown too slow{beside}", red=not self._is_crowded)
            for complaint in self._complaints:
                terminalreporter.line(complaint)

    def _show_slowest(self, reporter: pytest.TerminalReporter) -> None:
        reporter.section(f"slowest {SHOWN}")
        for nodeid in sorted(self._wholes, key=lambda one: self._wholes[one], reverse=True)[:SHOWN]:
            reporter.line(f"{self._wholes[nodeid]:7.1f} s  (itself {self._calls.get(nodeid, 0):5.1f})  {nodeid}")

    def _show_folders(self, reporter: pytest.TerminalReporter) -> None:
        budget = read_budget()
        whole, planned = sum(self._wholes.values()), sum(budget.values())
        reporter.section("folders, and their budgets, as shares of the whole")
        for folder, seconds in budget.items():
            mine = [nodeid for nodeid in self._wholes if folder_of(nodeid, budget) == folder]
            spent = sum(self._wholes[nodeid] for nodeid in mine)
            reporter.line(
                f"{spent / whole:6.1%} of {seconds / planned:6.1%} {spent:7.0f} s {len(mine):5} tests  {folder}"
            )
