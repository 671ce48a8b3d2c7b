"""Browsers' statements about the origin of a request."""

from __future__ import annotations

import pytest

from bus.errors import AccessDenied
from bus.security.origins import is_ours, is_secure, refuse_foreign_page
from bus.security.principals import ANYONE, Principal


@pytest.mark.parametrize(
    ("fetch_site", "origin", "host", "expected"),
    [
        ("same-origin", None, None, True),
        ("same-origin", "https://bus.example", "10.0.0.7:8701", True),
        ("same-site", "https://bus.example", "bus.example", False),
        ("cross-site", "https://bus.example", "bus.example", False),
        ("none", None, "bus.example", False),
        (None, "https://bus.example", "bus.example", True),
        (None, "http://127.0.0.1:8700", "127.0.0.1:8700", True),
        (None, "http://BUS.example", "bus.EXAMPLE", True),
        (None, "http://bus.example", "bus.example:8700", False),
        (None, "http://evil.example", "bus.example", False),
        (None, "http://bus.example.evil.example", "bus.example", False),
        (None, "http://user@bus.example", "bus.example", False),
        (None, "null", "bus.example", False),
        (None, "http://[", "bus.example", False),
        (None, "http://", "", False),
        (None, None, "bus.example", False),
    ],
)
def test_only_this_very_origin_is_ours(
    fetch_site: str | None, origin: str | None, host: str | None, *, expected: bool
) -> None:
    assert is_ours(fetch_site, origin, host) is expected


HOST = {b"host": b"127.0.0.1:8700"}


@pytest.mark.parametrize(
    ("headers", "is_refused"),
    [
        ({}, False),
        ({b"sec-fetch-site": b"none"}, False),
        ({b"sec-fetch-site": b"same-origin"}, False),
        ({b"origin": b"http://127.0.0.1:8700"}, False),
        ({b"sec-fetch-site": b"cross-site"}, True),
        ({b"sec-fetch-site": b"same-site", b"origin": b"http://127.0.0.1:9000"}, True),
        ({b"origin": b"https://evil.example"}, True),
        ({b"origin": b"null"}, True),
        ({b"origin": b""}, True),
    ],
)
def test_without_keys_a_page_of_another_site_is_refused(headers: dict[bytes, bytes], *, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(AccessDenied, match="another site"):
            refuse_foreign_page(ANYONE, HOST | headers)
    else:
        refuse_foreign_page(ANYONE, HOST | headers)
    refuse_foreign_page(Principal("k", "shop", ("producer",), ()), HOST | headers)  # who shows a key is who has it


def test_tls_may_end_at_a_proxy() -> None:
    assert is_secure("https", None)
    assert is_secure("http", "https://bus.example")
    assert not is_secure("http", "http://bus.example")
    assert not is_secure("http", None)
