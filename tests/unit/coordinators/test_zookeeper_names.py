"""Any text is a name of a znode, and is read back from it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.coordinators.zookeeper.names import node_of, text_of

PLAIN = set(string.ascii_letters + string.digits + "_.-~%=")


@given(st.text())
def test_a_text_is_read_back_from_its_znode(text: str) -> None:
    node = node_of(text)
    assert set(node) <= PLAIN
    assert node not in {"", ".", "..", "zookeeper"}
    assert text_of(node) == text


@given(st.text(), st.text())
def test_two_texts_are_two_znodes(one: str, other: str) -> None:
    assert (node_of(one) == node_of(other)) == (one == other)


@pytest.mark.parametrize("node", ["", "a", "zookeeper", "=a/b", "=%2f", "=%FF", "=%", "=\u00e9", "=a b", "==", "=%61"])
def test_what_is_not_the_bus_s_has_no_text(node: str) -> None:
    assert text_of(node) is None
