"""JSON with long lists: the same document as if all of it had been held."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bus.cli.output import print_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    document=st.dictionaries(st.text(min_size=1), JSON, min_size=1, max_size=4),
    lists=st.dictionaries(st.sampled_from(["missing", "contradicted"]), st.lists(JSON, max_size=4), min_size=1),
)
def test_lists_are_a_part_of_the_document(
    document: dict[str, Any], lists: dict[str, list[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    print_json(document, {name: iter(items) for name, items in lists.items()})
    assert json.loads(capsys.readouterr().out) == {**document, **lists}


def test_an_item_is_printed_before_the_next_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []

    def items() -> Iterator[str]:
        for name in ("one", "two"):
            printed.append(capsys.readouterr().out)
            yield name

    print_json({"a": 1}, {"items": items()})
    assert "one" in printed[1]
    assert "two" not in printed[1]
