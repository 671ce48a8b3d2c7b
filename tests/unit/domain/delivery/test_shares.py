"""Permits are shared without ever adding up to more than there are, whatever the order in which views are learnt."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.concurrency_shares import Shares, View

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


views = st.builds(View, st.sampled_from([("a",), ("a", "b"), ("b",), ("a", "b", "c"), ()]), st.integers(0, 3))


@given(st.lists(views, min_size=1, max_size=4), st.integers(1, 20), st.text(max_size=8))
def test_where_a_share_may_not_differ_it_does_not(learnt: list[View], total: int, name: str) -> None:
    shares = Shares("a")
    shares.resume((learnt[0],))
    before, was = shares.state, shares.of(name, total)
    for view in learnt[1:]:
        shares.want(view)
    for _ in range(2):
        assert shares.may_differ(before, total) or shares.of(name, total) == was
        shares.grant()


def test_a_rotation_is_nothing_to_those_that_divide_evenly() -> None:
    shares = Shares("a")
    shares.resume((View(("a", "b"), 1),))
    before = shares.state
    shares.want(View(("a", "b"), 2))
    assert not shares.may_differ(before, 16)
    assert shares.may_differ(before, 1)
    shares.want(View(("a", "b", "c"), 2))
    assert shares.may_differ(before, 16)


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
