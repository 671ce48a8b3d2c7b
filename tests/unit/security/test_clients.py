"""The address that counts is the nearest one that no trusted proxy has."""

from __future__ import annotations

import pytest

from bus.security.clients import client_address, network_of, networks_of

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
        ("10.0.0.1", ["198.51.100.7:50123"], "198.51.100.7"),
        ("10.0.0.1", ["198.51.100.7, 10.0.0.2:443"], "198.51.100.7"),
        ("10.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("10.0.0.1", ['"[2001:DB8:0::1]"'], "2001:db8::1"),
        ("10.0.0.1", ["::ffff:198.51.100.7"], "198.51.100.7"),
        ("10.0.0.1", ["[::ffff:198.51.100.7]:80, ::ffff:10.0.0.2"], "198.51.100.7"),
        ("::ffff:10.0.0.1", ["198.51.100.7"], "198.51.100.7"),
        ("::ffff:203.0.113.9", ["198.51.100.7"], "203.0.113.9"),
        ("10.0.0.1", ["[not an address]:80"], "[not an address]:80"),
        ("10.0.0.1", ["198.51.100.7:"], "198.51.100.7:"),
    ],
)
def test_only_what_a_trusted_proxy_says_is_believed(peer: str, forwarded: list[str], expected: str) -> None:
    headers = [(b"host", b"10.0.0.1"), *((b"x-forwarded-for", value.encode()) for value in forwarded)]
    assert client_address(peer, headers, TRUSTED) == expected


def test_a_network_of_ipv4_in_ipv6_is_one_of_ipv4() -> None:
    assert networks_of("::ffff:10.0.0.0/104, ::ffff:10.0.0.1, ::/0") == networks_of("10.0.0.0/8, 10.0.0.1, ::/0")


def test_without_trusted_proxies_the_peer_counts() -> None:
    assert client_address("10.0.0.1", [(b"x-forwarded-for", b"198.51.100.7")], networks_of("")) == "10.0.0.1"


@pytest.mark.parametrize("text", ["proxy.example", "10.0.0.0/40", "10.0.0.1;10.0.0.2"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not appear"):
        networks_of(text)


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("::1", "::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nonsense\0", "nonsense\0"),
    ],
)
def test_one_customer_has_an_address_of_ipv4_or_a_network_of_ipv6(address: str, network: str) -> None:
    assert network_of(address) == network
