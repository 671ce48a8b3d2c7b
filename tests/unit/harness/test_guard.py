"""A test or a folder that has grown slow is named; a slow machine is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.suite.guard import CROWDED, LONGEST, Guard, OwnFixtures, complaints, crowding, folder_of, read_budget

BUDGET = {"tests/unit": 30.0, "tests/acceptance": 60.0, "tests/acceptance/pages": 10.0}
QUICK = {f"tests/unit/test_a.py::test_{n}": 1.0 for n in range(30)}
EVEN = QUICK | {f"tests/acceptance/test_b.py::test_{n}": 6.0 for n in range(10)}
EVEN |= {f"tests/acceptance/pages/test_c.py::test_{n}": 1.0 for n in range(10)}


def times(factor: float) -> dict[str, float]:
    return {nodeid: seconds * factor for nodeid, seconds in EVEN.items()}


@pytest.mark.parametrize("factor", [0.1, 1, 10])
def test_a_machine_that_is_slow_or_fast_fails_nothing(factor: float) -> None:
    assert not complaints(times(factor), times(factor), BUDGET)


def test_a_test_that_is_slow_itself_is_named() -> None:
    slow = {"tests/unit/test_a.py::test_slow": LONGEST + 5}
    (found,) = complaints(slow, EVEN, BUDGET)
    assert found.startswith("tests/unit/test_a.py::test_slow took 20.0 s of at most 15.0")


def test_what_its_fixtures_took_is_not_its_own() -> None:
    assert not complaints({"tests/unit/test_a.py::test_first": 1.0}, EVEN, BUDGET)


def test_a_folder_that_takes_more_than_its_share_is_named() -> None:
    (found,) = complaints({}, times(3) | {"tests/unit/test_a.py::test_0": 100.0}, BUDGET)
    assert found.startswith("tests/unit took")


def test_a_folder_without_a_budget_is_named() -> None:
    (found,) = complaints({}, EVEN | {"tests/elsewhere/test_d.py::test_0": 0.1}, BUDGET)
    assert "in no folder of budget.toml" in found


FREE, FULL = 1.0, 2 * CROWDED


@pytest.mark.parametrize(
    ("before", "after", "exitstatus"),
    [
        (FREE, FREE, pytest.ExitCode.TESTS_FAILED),
        (FULL, FREE, pytest.ExitCode.OK),
        (FREE, FULL, pytest.ExitCode.OK),
    ],
)
def test_a_run_beside_other_work_is_not_failed(before: float, after: float, exitstatus: pytest.ExitCode) -> None:
    crowds = iter((before, after))
    guard = Guard(enforce=True, crowding=lambda: next(crowds))
    session = cast("pytest.Session", SimpleNamespace(exitstatus=pytest.ExitCode.OK))
    guard.pytest_sessionstart()
    guard.pytest_runtest_logreport(report("tests/unit/test_a.py::test_slow", 2 * LONGEST))
    guard.pytest_sessionfinish(session)
    assert session.exitstatus is exitstatus


SLOW_FIXTURES = """
import time, pytest

@pytest.fixture(scope="module")
def shared():
    time.sleep(0.4)

@pytest.fixture
def own(shared):
    time.sleep(0.2)

def test_a(own): ...
"""


def test_a_fixture_is_the_tests_own_unless_others_share_it(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_slow.py").write_text(SLOW_FIXTURES)
    watch = Watch()
    assert (
        pytest.main(["-q", "-p", "no:asyncio", "--rootdir", str(tmp_path), str(tmp_path)], [OwnFixtures(), watch]) == 0
    )
    (own,), (whole,) = watch.guard._calls.values(), watch.guard._wholes.values()
    assert own >= 0.2
    assert whole - own >= 0.4


class Watch:
    """Has a guard hear of a run."""

    def __init__(self) -> None:
        self.guard = Guard(enforce=False)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.guard.pytest_runtest_logreport(report)


def test_a_process_gets_no_more_cpu_than_there_is_time() -> None:
    assert crowding() > 0.9


def report(nodeid: str, seconds: float) -> pytest.TestReport:
    place = (nodeid.split("::", 1)[0], 0, nodeid)
    return pytest.TestReport(nodeid, place, {}, "passed", None, "call", duration=seconds)


def test_the_deepest_folder_counts() -> None:
    assert folder_of("tests/acceptance/pages/test_c.py::test_1", BUDGET) == "tests/acceptance/pages"
    assert folder_of("tests/acceptance/test_b.py::test_1", BUDGET) == "tests/acceptance"
    assert folder_of("tests/acceptance_of_more/test_b.py::test_1", BUDGET) is None


def test_every_folder_of_tests_has_a_budget(request: pytest.FixtureRequest) -> None:
    root, budget = request.config.rootpath, read_budget()
    files = [path.relative_to(root).as_posix() for path in (root / "tests").rglob("test_*.py")]
    assert not [file for file in files if folder_of(file, budget) is None]
    assert not [folder for folder in budget if not (root / folder).is_dir()]
