"""Every pair of features meets: what is accepted arrives whole, in order and in time, or is visibly final."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.combinations.model import Group, Row, groups, rows
from tests.acceptance.combinations.oracle import Verdict
from tests.acceptance.combinations.world import Brokers, world
from tests.proofs.figures import Figures, note

AT_ONCE: Final = 6
_SAMPLE: Final = range(8)
_SAMPLED_AT_ONCE: Final = 4
_SEED: Final = int(os.environ.get("COMBINATIONS_SEED", "1"))


def run(chosen: Sequence[Group], folder: Path, brokers: Brokers, *, count: int) -> dict[Row, Verdict]:
    """Run groups, and print what became of each row."""
    found: dict[Row, Verdict] = {}
    for number, group in enumerate(chosen):
        with world(group, folder / str(number), brokers, count) as made:
            verdicts = made.run()
        found |= verdicts
        for row, verdict in verdicts.items():
            print(f"{row}: {'; '.join(verdict.complaints) or 'kept'}", flush=True)
    return found


def prove(found: dict[Row, Verdict], seed: int) -> None:
    """Print the sums, and fail on any broken promise."""
    total = [sum(verdict[place] for verdict in found.values()) for place in range(len(Verdict._fields) - 1)]
    print(f"seed {seed}: {len(found)} rows,", *(f"{n} {name}" for n, name in zip(total, Verdict._fields, strict=False)))
    counts = dict(zip(Verdict._fields, total, strict=False))
    faults = sum(row.fault != "none" for row in found)
    note(
        Figures(
            messages=counts["accepted"],
            faults=faults,
            **{name: counts[name] for name in ("lost", "unexpected", "duplicates", "false_traces")},
        )
    )
    broken = {str(row): verdict.complaints for row, verdict in found.items() if verdict.complaints}
    assert not broken, f"seed {seed}: {broken}"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    with Brokers(tmp_path_factory.mktemp("brokers")) as started:
        yield started


@pytest.mark.parametrize("number", _SAMPLE)
@pytest.mark.timeout(300)
def test_a_sample_of_pairs(number: int, tmp_path: Path, brokers: Brokers) -> None:
    group = groups(rows(2, _SEED), _SAMPLED_AT_ONCE, _SEED)[number]
    prove(run([group], tmp_path, brokers, count=24), _SEED)


@pytest.mark.proof
@pytest.mark.parametrize("strength", [2, 3])
@pytest.mark.timeout(3 * 3_600)
def test_every_combination(tmp_path: Path, strength: int, brokers: Brokers) -> None:
    chosen = groups(rows(strength, 1), AT_ONCE, 1)
    prove(run(chosen, tmp_path, brokers, count=60), 1)
