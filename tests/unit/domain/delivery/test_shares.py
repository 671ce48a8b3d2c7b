"""Permits are shared without ever adding up to more than there are, whatever the order in which views are learnt."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.shares import Shares, View

OWNERS = ("a", "b", "c", "d")


@given(st.integers(1, 40), st.integers(1, 4), st.integers(0, 9), st.text(max_size=8))
def test_the_shares_of_a_view_add_up(total: int, count: int, rotation: int, name: str) -> None:
    view = View(OWNERS[:count], rotation)
    shares = [view.share(owner, name, total) for owner in view.owners]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


def test_who_is_not_in_the_view_has_none() -> None:
    assert View(("a",)).share("b", "billing", 16) == 0
    assert Shares("a").of("billing", 16) == 0


def test_permits_too_few_for_all_go_round() -> None:
    had = {owner for turn in range(3) for owner in "abc" if View(("a", "b", "c"), turn).share(owner, "billing", 1)}
    assert had == {"a", "b", "c"}


@pytest.mark.parametrize("seed", range(40))
def test_members_that_come_go_and_learn_of_it_at_any_time_never_use_more_than_there_is(seed: int) -> None:
    """A member grows only when every member of its view has published that it shrank to it."""
    dice = random.Random(seed)
    total = dice.choice([1, 2, 5, 16])
    shares = {"a": Shares("a")}
    published = {"a": View()}
    used = 0
    for _ in range(600):
        owner = dice.choice(sorted(shares))
        own = shares[owner]
        step = dice.randrange(12)
        if step == 0:
            fresh = dice.choice(OWNERS)
            shares.setdefault(fresh, Shares(fresh))
            published.setdefault(fresh, View())
        elif step == 1 and len(shares) > 1:
            del shares[owner], published[owner]  # what it had in flight has ended
        elif step <= 4:
            own.want(View(tuple(sorted(shares)), dice.randint(0, 2)))
        elif step <= 8:
            published[owner] = own.view
        elif all(published.get(member) == own.view for member in own.view.owners):
            own.grant()
        in_use = sum(one.of("billing", total) for one in shares.values())
        assert in_use <= total
        used = max(used, in_use)
    assert used == total
