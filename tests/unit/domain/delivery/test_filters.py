"""A subscription's filter: JMESPath's own truth, and no message is lost by an expression that fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.delivery.filters import Filter
from bus.domain.message import Message

DEEP = b"[" * 50_000 + b"]" * 50_000


def message(body: bytes = b'{"n": 5, "who": {"name": "Ann"}, "list": [1, 2]}', **changes) -> Message:
    fields = {"biz_id": "42", "key": "k", "source": "shop", "headers": {"region": "eu"}} | changes
    return Message("id-1", "orders", body, **fields)


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("body.n > `3`", True),
        ("body.n > `7`", False),
        ("body.who.name == 'Ann'", True),
        ("body.nothing", False),
        ("contains(body.list, `2`)", True),
        ("headers.region == 'eu' && source == 'shop'", True),
        ("headers.region == 'us' || key == 'k'", True),
        ("!(body.nothing)", True),
        ("biz_id == '42'", True),
    ],
)
def test_an_expression_sees_body_headers_and_names(expression: str, wanted: bool) -> None:
    assert Filter(expression).wants(message()) is wanted


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        *((b"null", False), (b"false", False), (b'""', False), (b"[]", False), (b"{}", False)),
        *((b"0", True), (b"0.0", True), (b"-0.0", True), (b"true", True), (b'"0"', True), (b"[0]", True)),
        (b'{"a": null}', True),
    ],
)
def test_truth_is_that_of_jmespath(body: bytes, wanted: bool) -> None:
    assert Filter("body").wants(message(body)) is wanted


@pytest.mark.parametrize(
    "body",
    [
        b'\xef\xbb\xbf{"n": 5}',
        *('{"n": 5}'.encode(name) for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")),
    ],
)
def test_a_body_is_read_in_each_encoding_of_json(body: bytes) -> None:
    assert Filter("body.n == `5`").wants(message(body)) is True


@pytest.mark.parametrize("body", [b"", b"<xml/>", b"\xff\xfe", b'{"a":', b'{"a": NaN}', DEEP], ids=range(6))
@pytest.mark.parametrize("content_type", ["application/json", "application/vnd.order+JSON; charset=utf-8"])
def test_an_expression_over_a_body_that_only_says_that_it_is_json_fails(body: bytes, content_type: str) -> None:
    broken = message(body, content_type=content_type)
    for expression in ("body.a", "*.a | [0]", "values(@)[?a]"):
        with pytest.raises(ValueError, match="its body is no JSON, as its content type says"):
            Filter(expression).wants(broken)
    assert Filter("key == 'k'").wants(broken) is True


@pytest.mark.parametrize("name", ["x-role", "X-Role", "X-ROLE"])
@pytest.mark.parametrize("written", ["x-role", "X-Role"])
def test_names_of_headers_are_the_same_in_upper_and_lower_case(name: str, written: str) -> None:
    assert Filter(f"headers.\"{name}\" == 'a'").wants(message(headers={written: "a"})) is True
    assert Filter("keys(headers) == ['x-role']").wants(message(headers={written: "a"})) is True
    assert Filter(f'headers."{name}" && length(headers) == `1`').wants(message(headers={written: "a"})) is True


@pytest.mark.parametrize("body", [b"", b"<xml/>", b"\xff\xfe", b'{"a":', b"1e999", DEEP], ids=range(6))
def test_a_body_that_is_no_json_is_null(body: bytes) -> None:
    assert Filter("body == null").wants(message(body)) is True


@pytest.mark.parametrize(
    ("expression", "body"),
    [
        ("length(body)", b"1"),
        ("sort(body)", b'[1, "a"]'),
        ("body > `1`", b'"x"'),
        ("nonsense(body)", b"1"),
        ("ceil(to_number(body))", b'"1e999"'),
        ("floor(to_number(body))", b'"nan"'),
        ("body[::0]", b"[1]"),
        ("max_by(body, &a)", b'[{"a": 1}, {"a": "x"}]'),
    ],
)
def test_an_expression_that_fails_says_so_with_the_message(expression: str, body: bytes) -> None:
    with pytest.raises(ValueError, match="fails on message id-1"):
        Filter(expression).wants(message(body))


@pytest.mark.parametrize(
    "expression", ["", " ", "body.", "[", '`"`', "a b", "(" * 5000, "!" * 5000 + "a", "[" + "9" * 5000 + "]", "\ud800"]
)
def test_what_does_not_compile_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match="does not compile"):
        Filter(expression)


tokens = st.sampled_from(
    [
        *(
            "body",
            "a",
            ".",
            "[",
            "]",
            "*",
            "?",
            "||",
            "&&",
            "!",
            "(",
            ")",
            "`1`",
            "'x'",
            "@",
            "|",
            "[]",
            "==",
            ">",
            "::0",
        ),
        *(",", "length", "to_number", "ceil", "sort_by", "&", "map", "join", "keys", "sum", "{", "}", ":", "0", "-1"),
    ]
)
bodies = st.sampled_from([b"1", b'"x"', b"[1,2]", b'{"a": [1, "b"]}', b"{", b""])


@given(st.lists(tokens, max_size=12).map("".join), bodies)
def test_nothing_but_an_answer_or_a_value_error(expression: str, body: bytes) -> None:
    try:
        answer = Filter(expression).wants(message(body))
    except ValueError:
        return
    assert answer in (True, False)
