"""Texts that are conditions of a search, and matches at their edges."""

from __future__ import annotations

import pytest

from bus.domain.searching.conditions import StatusClass, class_of, has_text, has_value, parse_path, parse_ref


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("a", ("a",)),
        ("a.b[0][12].c-d", ("a", "b", 0, 12, "c-d")),
        ("[3].$ref", (3, "$ref")),
        ('"a.b"."\\"[0]"', ("a.b", '"[0]')),
        ("订单.号", ("订单", "号")),
    ],
)
def test_a_path_has_steps(text: str, steps: tuple[str | int, ...]) -> None:
    assert parse_path(text) == steps


@pytest.mark.parametrize(
    "text", ["", ".", ".a", "a.", "a..b", "a b", "a[", "a[-1]", "a[*]", "a[x]", "[0]a", 'a"b"', '"a', "a|b", "*", "a()"]
)
def test_anything_else_is_no_path(text: str) -> None:
    with pytest.raises(ValueError, match=r"path|name"):
        parse_path(text)


@pytest.mark.parametrize("body", [b"", b"\xff", b"{", b"1", b'"a"', b"[]", b"null", b'{"a"}', b"[" * 100_000])
def test_a_body_without_the_path_has_no_value(body: bytes) -> None:
    assert not has_value(body, "a.b", None)
    assert not has_value(body, "[0]", None)


def test_numbers_are_compared_as_they_stand() -> None:
    body = b'{"n": 12345678901234567890123, "e": 1e400 , "s": "1e400"}'
    assert has_value(body, "n", "12345678901234567890123")
    assert has_value(body, "e", "1e400")
    assert has_value(body, "s", "1e400")
    assert not has_value(body, "e", "1E400")


def test_a_text_is_found_however_json_writes_it() -> None:
    assert has_text("中".encode(), "中")
    assert has_text(b'"\\u4e2d"', "中")
    assert has_text(b'{"a": "say \\"x\\""}', 'say "x"')
    assert not has_text("中".encode("gbk"), "中")


def test_answers_have_classes() -> None:
    found = [class_of(code) for code in (204, 302, 404, 503, None, 100, 600)]
    assert found == [*StatusClass, None, None]


def test_a_ref_may_be_of_several_kinds() -> None:
    both = "0190a7f0e1c27abc9def0123456789ab"
    assert parse_ref(both.upper()) == (both.upper(), "0190a7f0-e1c2-7abc-9def-0123456789ab", both)
    assert parse_ref("order-1") == ("order-1", "", "")
