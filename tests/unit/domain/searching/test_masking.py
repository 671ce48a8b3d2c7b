"""Masking: no value that a rule names is in what comes out, and all else is what it was."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.searching.masking import LARGEST, MASK, MOST_RULES, Unmaskable, check_rules, masking

NAMES = ["a", "b", "card", "é", "e\u0301", "we.ird", 'q"uote', "*", "[*]", "", "键", "\U0001f600", "back\\slash"]
SHAPES = st.recursive(
    st.sampled_from(["leaf", "null"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=25,
)
STEPS = st.lists(st.sampled_from([*NAMES, "*any", "*items"]), max_size=5)


def rule_of(steps: list[str]) -> str:
    """Write a rule, its names quoted."""
    forms = {"*any": ".*", "*items": "[*]"}
    return "body" + "".join(forms.get(step) or f"[{json.dumps(step)}]" for step in steps)


def filled(shape: Any, numbers: itertools.count[int], *, text: bool) -> Any:
    """Put a value of its own in each leaf's place."""
    if isinstance(shape, list):
        return [filled(inner, numbers, text=text) for inner in shape]
    if isinstance(shape, dict):
        return {name: filled(inner, numbers, text=text) for name, inner in shape.items()}
    if shape == "null":
        return None
    return f"value-{next(numbers)}-" if text else 7_000_000 + next(numbers)


def leaves(value: Any) -> set[str]:
    """Return the values in the leaves."""
    if isinstance(value, dict):
        return set().union(*map(leaves, value.values()))
    if isinstance(value, list):
        return set().union(*map(leaves, value))
    return set() if value is None else {str(value)}


def hidden(value: Any, steps: list[str]) -> set[str]:
    """Say by a plain walk which leaves a rule hides."""
    steps = [step for step in steps if step != "*items"]
    if not steps:
        return leaves(value)
    if isinstance(value, list):
        return set().union(*(hidden(inner, steps) for inner in value))
    if isinstance(value, dict):
        names = [name for name in value if steps[0] == "*any" or same(name) == same(steps[0])]
        return set().union(*(hidden(value[name], steps[1:]) for name in names))
    return leaves(value)


def same(name: str) -> str:
    return "é" if name == "e\u0301" else name


@given(SHAPES, st.lists(STEPS, min_size=1, max_size=4), st.booleans(), st.booleans(), st.sampled_from([None, 2]))
def test_no_masked_value_comes_out_and_every_other_does(
    shape: Any, paths: list[list[str]], text: bool, escaped: bool, indent: int | None
) -> None:
    value = filled(shape, itertools.count(), text=text)
    secret = set().union(*(hidden(value, steps) for steps in paths))
    body = json.dumps(value, ensure_ascii=escaped, indent=indent).encode()
    out = masking(tuple(rule_of(steps) for steps in paths)).mask_body(body).decode()
    assert not [found for found in secret if found in out]
    assert not [found for found in leaves(value) - secret if found not in out]
    assert leaves(json.loads(out)) <= (leaves(value) - secret) | {MASK}


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_whatever_the_bytes_are_it_is_json_or_withheld(body: bytes) -> None:
    rules = masking(("body.a",))
    try:
        json.loads(body.decode())
    except (ValueError, RecursionError):
        if body:
            with pytest.raises(Unmaskable):
                rules.mask_body(body)
    else:
        json.loads(rules.mask_body(body))


@pytest.mark.parametrize(
    ("rule", "body", "out"),
    [
        ("body", '{"a": 1}', '"***"'),
        ("body", "not json", '"***"'),
        ("body.card.number", '{"card": {"number": 4111, "x": 1}}', '{"card": {"number": "***", "x": 1}}'),
        ("body.card.number", '{"card": "4111"}', '{"card": "***"}'),
        ("body.card.number", '{"card": null}', '{"card": null}'),
        ("body.card", '{"card": {"deep": [1, {"er": 2}]}}', '{"card": "***"}'),
        ("body.card", '{"card": 1, "card": 2}', '{"card": "***", "card": "***"}'),
        ("body.card", '{"c\\u0061rd": 1}', '{"c\\u0061rd": "***"}'),
        ("body.card", '{"Card": 1}', '{"Card": 1}'),
        ("body.items[*].email", '{"items": [{"email": "a@b"}, 5, []]}', '{"items": [{"email": "***"}, "***", []]}'),
        ("body.items.email", '{"items": [[{"email": "a@b"}]]}', '{"items": [[{"email": "***"}]]}'),
        ("body[*].a", '[{"a": 1}, {"b": 2}]', '[{"a": "***"}, {"b": 2}]'),
        ("body.a", '[{"a": 1}]', '[{"a": "***"}]'),
        ("body.a", "12", '"***"'),
        ("body.a", '"text"', '"***"'),
        ("body.*.t", '{"x": {"t": 1}, "y": {"u": 2}}', '{"x": {"t": "***"}, "y": {"u": 2}}'),
        ('body["a.b"]', '{"a.b": 1, "a": {"b": 2}}', '{"a.b": "***", "a": {"b": 2}}'),
        ("body.é", '{"e\u0301": 1}', '{"e\u0301": "***"}'),
        ("body.a", "", ""),
        ("headers.x", '{"a" :1}', '{"a" :1}'),
    ],
)
def test_a_rule_names_its_values(rule: str, body: str, out: str) -> None:
    assert masking((rule,)).mask_body(body.encode()).decode() == out


def test_what_is_not_masked_stays_byte_for_byte() -> None:
    rest = (
        ' {"n" : 1e400,\t"big":123456789012345678901234567890.10, "x":NaN, "y": -Infinity, "u":"\\u00e9\\/", "long": '
    )
    rest += "9" * 10_000 + ', "a": '
    assert masking(("body.a",)).mask_body((rest + "1 }\n").encode()).decode() == rest + '"***" }\n'


@pytest.mark.parametrize(
    "body",
    [
        *(b"{'a': 1}", b'{"a": 1,}', b'{"a": 1} {"a": 2}', b'{"a": 1}\n{"a": 2}\n', b'{"a": 1', b'{"a" 1}', b"{a: 1}"),
        *(b'[{"a": 1}', b"\xff\xfe{\x00}\x00", '{"a": 1}'.encode("utf-16"), '\ufeff{"a": 1}'.encode(), b"a=secret"),
        *(b"[" * 100_000, b'{"b":' + b"[" * 100_000, b'{"a":' * 100_000, b'{"a": "\x01"}', b" ", b'{"b":01,"a":1}'),
        b"[" + b" " * LARGEST + b"]",
    ],
)
def test_what_cannot_be_masked_is_withheld(body: bytes) -> None:
    with pytest.raises(Unmaskable, match="withheld") as raised:
        masking(("body.a",)).mask_body(body)
    assert "secret" not in str(raised.value)


def test_headers_are_masked_in_any_case_of_letters() -> None:
    rules = masking(("headers.Authorization", "body.a"))
    assert rules.mask_headers({"AUTHORIZATION": "Basic x", "trace": "1"}) == {"AUTHORIZATION": MASK, "trace": "1"}
    assert masking(("headers",)).mask_headers({"a": "1", "b": "2"}) == {"a": MASK, "b": MASK}
    assert masking(("body.a",)).mask_headers({"a": "1"}) == {"a": "1"}
    assert not masking(())


@pytest.mark.parametrize(
    "rule",
    [
        *("", "bod", "bodyx", "body.", "body..a", "body[0]", "body[", "body.a b", 'body["a\\q"]', "headers.", "key"),
        *("headers.a b", "headers.a.b\n", "body." + "a" * 300, "body" + ".a" * 33, "$.body", "body.a\n"),
    ],
)
def test_a_rule_that_is_none_says_how_to_write_one(rule: str) -> None:
    with pytest.raises(ValueError, match="rule"):
        check_rules([rule])


def test_rules_are_bounded_and_each_is_kept_once() -> None:
    assert check_rules(["body.a", "headers.b", "body.a"]) == ("body.a", "headers.b")
    with pytest.raises(ValueError, match="at most"):
        check_rules([f"body.a{number}" for number in range(MOST_RULES + 1)])
