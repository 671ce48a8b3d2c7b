"""A writer that is killed, or told that its disk failed, at every system call that writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bus.spool.recovery.restore import FAILED
from bus.spool.recovery.salvage import EVIDENCE
from tests.integration.spool.processes import UNKNOWN, command, reopened, traced

KILLED = 137
CALLS = {"blocking": 40, "concurrent": 320}


def kill_at(directory: Path, driver: str, call: str, number: int) -> bool:
    """Kill a writer at its n-th call and check what is left; return whether it came that far."""
    code, history, _ = traced(f"{call}:signal=KILL:when={number}", command(directory, driver, number, CALLS[driver]))
    assert code in (0, KILLED, -9)
    assert reopened(directory, history) == []
    return code != 0


@pytest.mark.parametrize("driver", ["blocking", "concurrent"])
@pytest.mark.parametrize(("call", "numbers"), [("fdatasync", (3, 14)), ("pwrite64", (5, 150))])
def test_killed_at_a_system_call(tmp_path: Path, driver: str, call: str, numbers: tuple[int, ...]) -> None:
    reached = [kill_at(tmp_path / str(number), driver, call, number) for number in numbers]
    assert any(reached)


def test_killed_in_a_salvage(tmp_path: Path) -> None:
    """A salvage that is killed anywhere goes on at the next start."""
    for number in (1, 2, 3, 4):
        directory = tmp_path / str(number)
        code, history, _ = traced("fdatasync:error=EIO:when=30+", command(directory, "blocking", 7, 40))
        assert code == UNKNOWN
        assert (directory / FAILED).exists()
        killed, _, _ = traced(f"fsync,rename:signal=KILL:when={number}", command(directory, "blocking", 7, 0))
        assert killed != 0
        assert reopened(directory, history) == []
        assert not (directory / FAILED).exists()


@pytest.mark.parametrize("driver", ["blocking", "concurrent"])
@pytest.mark.parametrize("when", ["12", "17+", *(pytest.param(when, marks=pytest.mark.proof) for when in ("14", "25"))])
def test_nothing_is_acknowledged_after_a_failed_sync(tmp_path: Path, driver: str, when: str) -> None:
    check_failed_sync(tmp_path, driver, f"fdatasync:error=EIO:when={when}")


def check_failed_sync(directory: Path, driver: str, inject: str) -> None:
    code, history, _ = traced(inject, command(directory, driver, 5, CALLS[driver]))
    assert code == UNKNOWN, "the writer went on although its disk failed"
    assert json.loads((directory / FAILED).read_text())["reason"]
    assert reopened(directory, history) == []
    if history.tried:
        assert list((directory / EVIDENCE).glob("*/spool.db")), "the file whose sync failed was used again"


@pytest.mark.proof
@pytest.mark.parametrize("driver", ["blocking", "concurrent"])
@pytest.mark.parametrize(("call", "step"), [("fdatasync", 1), ("fsync", 1), ("pwrite64", 5), ("ftruncate", 1)])
def test_killed_at_every_system_call(tmp_path: Path, driver: str, call: str, step: int) -> None:
    number = 1
    while kill_at(tmp_path / str(number), driver, call, number):
        number += step


@pytest.mark.proof
@pytest.mark.parametrize("driver", ["blocking", "concurrent"])
@pytest.mark.parametrize("call", ["fdatasync", "pwrite64"])
def test_every_sync_and_write_may_fail(tmp_path: Path, driver: str, call: str) -> None:
    number, step = 1, 1 if call == "fdatasync" else 7
    while True:
        code, history, _ = traced(
            f"{call}:error=EIO:when={number}", command(tmp_path / str(number), driver, 5, CALLS[driver])
        )
        assert code in (0, UNKNOWN)
        assert reopened(tmp_path / str(number), history) == []
        if code == 0:
            return
        number += step
