"""Migrations in a world where all that can fail does: nothing is lost or left behind, and no key is inverted."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.stateful.migrations.planted import BUGS
from tests.stateful.migrations.simulation import Simulation

FOUND_BY = {
    "writers of an ordered topic may remain": 10,
    "writers of an unordered topic may remain": 8,
    "consumers of an ordered topic leave what waits": 84,
    "consumers of an unordered topic leave what waits": 1,
    "no proxy is asked for what it has in force": 692,
    "what is in flight or deferred is overlooked": 1,
    "an nsqd that is silent counts as empty": 13,
    "what a proxy said in any life and turn counts": 1_356,
    "the target of an ordered topic is read too early": 108,
    "an ordered topic is rolled back at once": 5,
    "an unordered topic is rolled back at once": 26,
}


def complaints(seeds: Iterable[int]) -> dict[int, list[str]]:
    return {seed: found.complaints for seed in seeds if (found := Simulation(seed).run()).complaints}


@pytest.mark.parametrize("begin", range(0, 200, 50))
def test_nothing_is_lost_or_inverted(begin: int) -> None:
    assert not complaints(range(begin, begin + 50))


@pytest.mark.proof
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("begin", range(1_000, 41_000, 10_000))
def test_nothing_is_lost_or_inverted_over_forty_thousand_seeds(begin: int) -> None:
    assert not complaints(range(begin, begin + 10_000))


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str) -> None:
    seed = FOUND_BY[bug]
    rules, kind, what = BUGS[bug]
    assert not Simulation(seed, kind=kind).run().complaints
    assert any(what in text for text in Simulation(seed, rules(), kind).run().complaints)
