"""The rule of topic exchanges, against a naive model of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.routing_pattern import matches

WORDS = ["", "a", "b", "ab", "*", "#"]


def naive(pattern: list[str], key: list[str]) -> bool:
    """Try everything that a pattern may stand for."""
    if not pattern:
        return not key
    first, rest = pattern[0], pattern[1:]
    if first == "#":
        return any(naive(rest, key[taken:]) for taken in range(len(key) + 1))
    return bool(key) and first in ("*", key[0]) and naive(rest, key[1:])


def words(text: str) -> list[str]:
    return text.split(".") if text else []


texts = st.lists(st.sampled_from(WORDS), max_size=7).map(".".join)


@given(texts, texts)
def test_it_agrees_with_a_naive_model(pattern: str, key: str) -> None:
    assert matches(pattern, key) is naive(words(pattern), words(key))


@given(st.text(alphabet="ab.", max_size=12))
def test_every_key_is_taken_by_the_default_pattern(key: str) -> None:
    assert matches("#", key)


@given(st.text(alphabet="ab.", max_size=12))
def test_a_pattern_without_wildcards_takes_just_its_own_key(key: str) -> None:
    assert matches(key, key)
    assert not matches(key, f"{key}x")


@pytest.mark.parametrize(
    ("pattern", "key", "taken"),
    [
        ("order.*", "order.paid", True),
        ("order.*", "order", False),
        ("order.*", "order.paid.late", False),
        ("order.#", "order", True),
        ("order.#", "order.paid.late", True),
        ("#.late", "order.paid.late", True),
        ("#.late", "order.late.paid", False),
        ("*.#.late", "late", False),
        ("*", "", False),
        ("", "", True),
        ("", "a", False),
        ("*.*", ".", True),
        ("order.paid", "orderspaid", False),
    ],
)
def test_examples(pattern: str, key: str, taken: bool) -> None:
    assert matches(pattern, key) is taken


def test_many_wildcards_cost_no_explosion() -> None:
    assert not matches(".".join(["#", "a"] * 40), ".".join(["a"] * 200 + ["b"]))
