"""The Python that ``make run`` takes: another one only if it is worth it, and none that cannot do the work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench import fastest


@pytest.mark.parametrize(
    ("seconds", "taken"),
    [
        ({"own": 1.0}, "own"),
        ({"own": 1.0, "other": 0.95}, "own"),
        ({"own": 1.0, "other": 0.8, "best": 0.7}, "best"),
        ({"other": 0.8}, "other"),
        ({}, "own"),
    ],
)
def test_another_is_taken_only_if_it_takes_a_tenth_less(seconds: dict[str, float], taken: str) -> None:
    assert fastest.fastest("own", seconds) == taken


def test_each_is_measured_once_whatever_names_it_has_and_only_one_that_can(tmp_path: Path) -> None:
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for place in ("same", "again", "broken"):
        (tmp_path / place).mkdir()
    (tmp_path / "same" / name).symlink_to(sys.executable)
    (tmp_path / "again" / name).symlink_to(sys.executable)
    (tmp_path / "broken" / name).write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "broken" / name).chmod(0o700)
    places = [str(tmp_path / place) for place in ("same", "again", "broken", "missing")]
    found = fastest.candidates(sys.executable, places)
    assert found == [sys.executable, str(tmp_path / "broken" / name)]
    assert list(fastest.measured(found, rounds=1)) == [sys.executable]


def test_the_reason_names_the_others() -> None:
    assert fastest.reason("own", {"own": 1.0}) == "the only one of its version here"
    assert fastest.reason("own", {"own": 1.0, "other": 0.95}) == "1.00 s for the same work; other 0.95 s"


@pytest.mark.parametrize("named", [(), (sys.executable,)])
def test_it_prints_which_it_takes_and_why(named: tuple[str, ...]) -> None:
    argv = [sys.executable, "bench/fastest.py", *named]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    path, said = done.stdout.splitlines()[0].split(": ", 1)
    assert Path(path).exists()
    assert said.startswith("Python 3.")
    assert said.endswith(", named by PYTHON") == bool(named)
