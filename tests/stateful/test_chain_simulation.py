"""Chains of broker groups, in a world where all that can fail does: no order is broken, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.stateful.chains.planted import BUGS
from tests.stateful.chains.simulation import Simulation

# After a change of the rules: python -m tests.stateful.chains
FOUND_BY = {
    "a segment is appended after its group was returned": 528,
    "a group joins before it is drained": 2_617,
    "messages of an older producer are taken": 1_086,
    "messages are written behind one that is in doubt": 924,
    "messages of older epochs are given": 16_238,
    "a reader goes on without its lease": 20_900,
    "a lease is longer than the error of clocks": 26,
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
    assert any("in the order" in text for text in Simulation(seed, BUGS[bug]()).run().complaints)
