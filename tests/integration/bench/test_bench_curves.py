"""Curves are measured beside nsq on real processes, and drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.curves import backlog, load, processes, subscribers
from bench.run import Run, Size
from tests.servers import need

SMALL = Size(messages=400, seconds=0.5, backlog=1_000, rounds=1, subscribers=2, processes=2, rate=100)
OTHERS = [
    pytest.param(subscribers, ["deliveries, 1 subscriber", "deliveries, 2 subscribers"], id="subscribers"),
    pytest.param(
        processes,
        [f"deliveries, {to}, {by}" for to in ("1 subscriber", "4 subscribers") for by in ("1 process", "2 processes")],
        id="processes",
    ),
]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    folder = tmp_path / "run"
    folder.mkdir()
    return Run(folder, SMALL, need("nsq"), lambda _: None, tmp_path / "pictures")


def is_drawn(run: Run, name: str) -> bool:
    assert run.pictures is not None
    return (run.pictures / f"{name}.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_a_backlog_is_drained_by_both_systems_and_drawn(run: Run) -> None:
    rows = backlog.measure(run)
    assert [(row.figure, row.beside) for row in rows] == [("deliveries of a backlog of 1,000", "nsq")]
    assert min(rows[0].value, rows[0].reference) > 0
    assert is_drawn(run, "backlog")


@pytest.mark.proof
@pytest.mark.parametrize(("section", "figures"), OTHERS)
def test_every_other_curve_is_measured_and_drawn(run: Run, section, figures: list[str]) -> None:
    rows = section.measure(run)
    assert [row.figure for row in rows] == figures
    assert all(min(row.value, row.reference) > 0 for row in rows)
    assert is_drawn(run, section.__name__.rpartition(".")[2])


@pytest.mark.proof
def test_the_load_rises_while_a_system_keeps_up(run: Run) -> None:
    *p99s, most = load.measure(run)
    assert most.figure == "the highest load kept up with"
    assert len(p99s) <= 2
    assert all(row.value > 0 and row.reference > 0 for row in p99s)
    assert p99s == [] or is_drawn(run, "load")
