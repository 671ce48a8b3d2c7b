"""Every proof is in one part; a run is kept as a line, whole; the page shows what was lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.harness.process import ROOT
from tests.proofs.figures import Figures, note, take
from tests.proofs.history import Machine, Row, Run, append, read, this_machine, together
from tests.proofs.page import page_of
from tests.proofs.parts import PARTS, part_of

LOST = Figures(messages=100, faults=3, lost=2, duplicates=5)


def run(**changes: object) -> Run:
    row = Row("tests/acceptance/test_kill.py::test_a", "passed", 1.5, LOST)
    whole = Run(
        "2026-11-23T12:00:00Z", "kills", "abc", False, Machine(2, 24, "Linux", "3.11"), "passed", 2.0, LOST, [row]
    )
    return msgspec.structs.replace(whole, **changes)


@pytest.mark.parametrize(
    ("path", "part"),
    [
        ("tests/acceptance/test_kill.py", "kills"),
        ("tests/acceptance/attack/test_soak.py", "attack"),
        ("tests/integration/spool/test_power_cut.py", "kills"),
        ("tests/acceptance/test_degradation.py", "brokers"),
        ("tests/integration/mongodb/test_mongodb_processes.py", "brokers"),
        ("tests/acceptance/pages/test_page_find.py", "pages"),
        ("tests/unit/admin/test_admin_schema.py", "pages"),
        ("tests/integration/pipeline/test_rollup_kafka.py", "pipeline"),
        ("tests/acceptance/test_reconcile.py", "pipeline"),
    ],
)
def test_a_path_tells_the_part(path: str, part: str) -> None:
    assert part_of(path) == part
    assert part in PARTS


def test_what_judges_note_is_added_up_for_one_test_and_no_other() -> None:
    take()
    note(LOST)
    note(Figures(messages=1))
    assert take() == Figures(messages=101, faults=3, lost=2, duplicates=5)
    assert take() == Figures()


def test_a_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    runs = [run(), run(outcome="broken off", dirty=True)]
    (path,) = {append(one, tmp_path) for one in runs}
    assert read(path) == runs
    assert path.name == "kills.jsonl"
    assert read(tmp_path / "pages.jsonl") == []


def test_a_line_that_was_cut_off_hides_no_other(tmp_path: Path) -> None:
    path = append(run(), tmp_path)
    with path.open("ab") as file:
        file.write(b'{"at":"2026-')
    append(run(commit="def"), tmp_path)
    assert [one.commit for one in read(path)] == ["abc", "def"]


def test_the_machine_is_not_named() -> None:
    machine = this_machine()
    assert machine.cores >= 1
    assert Path("/proc/sys/kernel/hostname").read_text().strip() not in (machine.system, machine.python)


def test_the_page_shows_what_was_lost_and_what_was_not_run() -> None:
    page = page_of({"kills": [run(commit="<b>")]})
    assert '<b class="bad">2</b>lost' in page
    assert "&lt;b&gt;" in page
    assert "make proof-pages" in page
    assert "–" not in page
    assert "–" in page_of({"kills": [run(totals=Figures())]})
    assert "http" not in page.replace("http-equiv", "")


PROOF = """
import pytest
from tests.proofs.figures import Figures, note

@pytest.mark.proof
def test_that_counts():
    note(Figures(messages=70, faults=3, lost=41))
    note(Figures(messages=7, lost=1))

@pytest.mark.proof
def test_that_cannot_run():
    pytest.skip("no server")
"""


def test_cases_that_passed_are_one_row_and_those_that_failed_one_each() -> None:
    rows = [Row(f"test_a.py::test_a[{n}]", "failed" if n == 2 else "passed", 0.5, LOST) for n in range(4)]
    whole, failed = together(rows)
    assert (whole.name, whole.cases, whole.seconds, whole.figures) == ("test_a.py::test_a", 3, 1.5, LOST + LOST + LOST)
    assert failed == rows[2]


def test_the_figures_of_a_run_are_shown_and_one_that_could_not_run_fails_it(tmp_path: Path) -> None:
    (tmp_path / "test_kill.py").write_text(PROOF)
    command = [sys.executable, "-m", "pytest", "-p", "tests.proofs.plugin", "--part", part_of("test_kill.py")]
    command += ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", str(tmp_path / "test_kill.py")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    counted = next(line for line in ran.stdout.splitlines() if "test_that_counts" in line and "│" in line)
    assert [cell.strip() for cell in counted.split("│")[2:8]] == ["passed", "1", "77", "3", "42", "0"]
    assert "failed; not kept" in ran.stdout
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
