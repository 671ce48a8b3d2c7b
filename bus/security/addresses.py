"""IP addresses that are not on the public internet, IPv4 addresses inside IPv6 ones included.

``ipaddress.is_global`` cannot decide this: it is True for 64:ff9b::a9fe:a9fe, 2002:a9fe:a9fe::, fec0::1 and 224.0.0.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_SPECIAL: Final[list[tuple[Network, str]]] = [
    (ip_network(network), reason)
    for network, reason in (
        ("169.254.169.254/32", "a cloud metadata address"),
        ("169.254.170.2/32", "a cloud metadata address"),
        ("100.100.100.200/32", "a cloud metadata address"),
        ("168.63.129.16/32", "a cloud metadata address"),
        ("192.0.0.192/32", "a cloud metadata address"),
        ("fd00:ec2::254/128", "a cloud metadata address"),
        ("fd20:ce::254/128", "a cloud metadata address"),
        ("0.0.0.0/32", "unspecified"),
        ("0.0.0.0/8", "reserved"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "private (carrier-grade NAT)"),
        ("127.0.0.0/8", "loopback"),
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "reserved"),
        ("192.0.2.0/24", "reserved (documentation)"),
        ("192.88.99.0/24", "reserved (6to4 relay)"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "reserved (benchmarks)"),
        ("198.51.100.0/24", "reserved (documentation)"),
        ("203.0.113.0/24", "reserved (documentation)"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        ("::/128", "unspecified"),
        ("::1/128", "loopback"),
        ("64:ff9b:1::/48", "private (local NAT64)"),
        ("2001::/23", "reserved (Teredo and other protocols)"),
        ("2001:db8::/32", "reserved (documentation)"),
        ("2002::/16", "reserved (6to4)"),
        ("3fff::/20", "reserved (documentation)"),
        ("fc00::/7", "private (unique local)"),
        ("fe80::/10", "link-local"),
        ("fec0::/10", "private (site-local)"),
        ("ff00::/8", "multicast"),
    )
]
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
MAPPED: Final = IPv6Network("::ffff:0:0/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_TEREDO: Final = IPv6Network("2001::/32")
_ISATAP: Final = (0x00005EFE, 0x02005EFE)


def not_public(address: Address) -> str:
    """Say why an address is not on the public internet, or return an empty string.

    An IPv6 address that only carries an IPv4 one (mapped, or well-known NAT64) is judged by its `embedded` address.
    """
    for network, reason in _SPECIAL:
        if address.version == network.version and address in network:
            return reason
    if isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST:
        return ""
    return "" if address in MAPPED or address in _NAT64[0] else "reserved"


def embedded(address: Address) -> Iterator[IPv4Address]:
    """Yield every IPv4 address that an IPv6 address leads to by translation or tunnel."""
    if isinstance(address, IPv4Address):
        return
    number = int(address)
    if number > 1 and any(address in network for network in (MAPPED, _COMPATIBLE, *_NAT64)):
        yield IPv4Address(number & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        yield IPv4Address(number >> 80 & 0xFFFFFFFF)
    if address in _TEREDO:
        yield IPv4Address(number >> 64 & 0xFFFFFFFF)
        yield IPv4Address(~number & 0xFFFFFFFF)
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        yield IPv4Address(number & 0xFFFFFFFF)
