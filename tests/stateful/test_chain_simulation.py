"""Chains of broker groups, in a world where all that can fail does: no order is broken, and no loss is silent."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.stateful.chains.planted import BUGS
from tests.stateful.chains.simulation import Simulation

# After a change of the rules: python -m tests.stateful.chains
FOUND_BY = {
    "a segment is appended after its group was returned": 57,
    "a group joins before it is drained": 2_406,
    "messages of an older producer are taken": 229,
    "messages are written behind one that is in doubt": 2_711,
    "messages of older epochs are given": 188,
    "a group that lost its disks is taken for read": 50,
    "a group is not asked for its mark before it is written to": 54,
    "a reader goes on without its lease": 6,
    "a lease is longer than the error of clocks": 251,
}


def complaints(seeds: Iterable[int]) -> dict[int, list[str]]:
    return {seed: found.complaints for seed in seeds if (found := Simulation(seed).run()).complaints}


@pytest.mark.parametrize("begin", range(0, 500, 100))
def test_no_order_is_broken_and_nothing_is_lost(begin: int) -> None:
    assert not complaints(range(begin, begin + 100))


@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("begin", range(1_000, 101_000, 10_000))
def test_no_order_is_broken_over_a_hundred_thousand_seeds(begin: int) -> None:
    assert not complaints(range(begin, begin + 10_000))


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    seed = FOUND_BY[bug]
    assert not complaints([seed])
    assert Simulation(seed, BUGS[bug]()).run().is_wrong
