"""The content of an audit entry; keys order entries from the newest to the oldest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.audit import MASK, Change, Entry, compared, concerns, key_before, key_of, masked, named, sent
from bus.domain.identity import new_id

LATEST = 253_402_300_799_999


@pytest.mark.parametrize("name", ["secret", "password", "current_password", "key"])
def test_a_secret_is_never_kept(name: str) -> None:
    assert masked(name, "whsec_abc") == MASK
    assert masked("body", {name: ["whsec_abc"]}) == {name: MASK}
    assert masked(name, None) is None


def test_headers_are_named_and_their_values_are_not_kept() -> None:
    assert masked("headers", {"X-Token": "abc"}) == {"X-Token": MASK}
    assert compared({"headers": {"X-Token": "a"}}, {"headers": {"X-Token": "b"}}) == {
        "headers": Change({"X-Token": MASK}, {"X-Token": MASK})
    }


def test_a_long_value_is_cut() -> None:
    cut = masked("filter", "x" * 10_000)
    assert len(cut) < 1100
    assert cut.endswith("... (10002 bytes)")


def test_only_what_differs_is_a_change_and_a_secret_that_differs_is_named() -> None:
    before = {"url": "http://a/", "rate": 1, "secret": "one"}
    after = {"url": "http://a/", "rate": 2, "secret": "two"}
    assert compared(before, after) == {"rate": Change(1, 2), "secret": Change(MASK, MASK)}
    assert compared({}, {"rate": 1, "filter": None}) == {"rate": Change(None, 1)}


def test_a_body_that_was_not_accepted_leaves_names_only() -> None:
    assert named({"sekret": "whsec_abc", "rate": 1}) == {"sekret": Change(), "rate": Change()}
    assert len(named({f"{number:04d}" * 2000: 1 for number in range(1000)})) == 100
    for body in (None, [1], "x", 7):
        assert named(body) == sent(body) == {}
    assert sent({"rate": 1, "password": "x"}) == {"rate": Change(None, 1), "password": Change(None, MASK)}


@given(st.lists(st.integers(0, LATEST), min_size=2, max_size=2, unique=True))
def test_keys_in_order_are_times_from_the_newest_to_the_oldest(times: list[int]) -> None:
    older, newer = sorted(times)
    assert key_of(new_id(newer)) < key_of(new_id(older))
    assert key_of(new_id(newer)) <= key_before(newer) < key_of(new_id(older))


def test_a_time_before_the_epoch_is_before_every_entry() -> None:
    assert key_of(new_id(0)) <= key_before(-5)


@pytest.mark.parametrize(
    ("who", "what", "expected"),
    [
        (None, None, True),
        ("abc", None, True),
        ("key ops", None, True),
        ("key", None, True),
        ("user", None, False),
        (None, "destinations/orders", True),
        (None, "/destinations/orders/subscriptions/billing/", True),
        (None, "destinations", True),
        (None, "destinations/order", False),
        ("abc", "keys", False),
    ],
)
def test_who_and_what_choose(who: str | None, what: str | None, *, expected: bool) -> None:
    resource = "destinations/orders/subscriptions/billing"
    entry = Entry(id=new_id(0), kind="key", by="abc", name="key ops", method="PUT", resource=resource)
    assert concerns(entry, who=who, what=what) is expected
