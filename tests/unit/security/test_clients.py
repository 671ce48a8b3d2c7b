"""The address that counts is the nearest one that no trusted proxy has."""

from __future__ import annotations

import pytest

from bus.security.clients import client_address, networks_of

TRUSTED = networks_of("10.0.0.0/8, ::1,")


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.9", [], "203.0.113.9"),
        ("203.0.113.9", ["198.51.100.7"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["1.2.3.4, 198.51.100.7, 10.0.0.2"], "198.51.100.7"),
        ("10.0.0.1", ["1.2.3.4", "198.51.100.7"], "198.51.100.7"),
        ("::1", ["2001:db8::1"], "2001:db8::1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["10.0.0.3"], "10.0.0.3"),
        ("10.0.0.1", ["nonsense" * 20], ("nonsense" * 20)[:64]),
        ("10.0.0.1", ["198.51.100.7, nonsense"], "nonsense"),
        ("testclient", ["198.51.100.7"], "testclient"),
    ],
)
def test_only_what_a_trusted_proxy_says_is_believed(peer: str, forwarded: list[str], expected: str) -> None:
    assert client_address(peer, forwarded, TRUSTED) == expected


def test_without_trusted_proxies_the_peer_counts() -> None:
    assert client_address("10.0.0.1", ["198.51.100.7"], networks_of("")) == "10.0.0.1"


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.0/40", "10.0.0.1;10.0.0.2"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear"):
        networks_of(text)
