"""Headers that a message or a subscription may bring."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.headers import EXTENDED, check_header, wire_value
from bus.posters.target import HttpTarget
from bus.security.urls import parse_url


@pytest.mark.parametrize(
    ("name", "value"), [("X-Tenant", "a"), ("region", ""), ("a!#$%&'*+.^_`|~9", "tab\tand ü"), ("a" * 128, "")]
)
def test_a_header_is_taken(name: str, value: str) -> None:
    check_header(name, value)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a\r\nb", "ü", "a" * 129, "a\n", "(a)", "a,b"])
def test_a_name_that_http_does_not_know_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a header name"):
        check_header(name, "")


@pytest.mark.parametrize("value", ["a\rb", "a\nb", "\x00", "\x1f", "\x7f", "ok\r\nhost: evil", "\ud800"])
def test_a_value_that_adds_a_line_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="control character"):
        check_header("x-a", value)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "Host",
            "CONTENT-LENGTH",
            "content-type",
            "Connection",
            "transfer-encoding",
            "te",
            "trailer",
            "upgrade",
            "expect",
        ),
        *("keep-alive", "proxy-connection", "Proxy-Authorization", "traceparent", "tracestate"),
        *("webhook-id", "Webhook-Signature", "bus-key", "BUS-ATTEMPT", "accept-encoding"),
    ],
)
def test_a_name_that_the_bus_sets_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="set by the bus itself"):
        check_header(name, "x")


names = st.text(st.characters(max_codepoint=127), max_size=20) | st.sampled_from(["Accept-Encoding", "HOST", "X-A"])


@given(names, st.text(max_size=20))
def test_what_is_taken_can_be_sent(name: str, value: str) -> None:
    try:
        check_header(name, value)
    except ValueError:
        return
    target = HttpTarget("http://a/", parse_url("http://a.example/"), {})
    data, _ = target.render([(name, value)], b"")
    assert f"\r\n{name}: {wire_value(value)}\r\n".encode() in data


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ('50% of a; "b"', '50% of a; "b"'),
        ("é 1%", "UTF-8''%C3%A9%201%25"),
        ("a!#$&+-.^_`|~*'()é", "UTF-8''a!#$&+-.^_`|~%2A%27%28%29%C3%A9"),
        ("UTF-8''a", "UTF-8''UTF-8%27%27a"),
    ],
)
def test_a_value_that_is_not_ascii_is_sent_as_an_extended_value(value: str, sent: str) -> None:
    assert wire_value(value) == sent


@given(st.text(st.characters(codec="utf-8")) | st.text().map(lambda text: f"UTF-8''{text}").filter(str.isascii))
def test_each_value_can_be_read_again(value: str) -> None:
    sent = wire_value(value)
    assert sent.isascii()
    assert (unquote(sent.removeprefix(EXTENDED)) if sent.startswith(EXTENDED) else sent) == value
