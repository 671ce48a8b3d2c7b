"""The client address of a request, also through proxies."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from ipaddress import IPv4Network, IPv6Address, ip_address, ip_network
from socket import AF_INET6, inet_ntop, inet_pton
from typing import Final

from bus.security.addresses import MAPPED, Network

# As proxies write whom they serve: the address, often with its port (RFC 7239, section 6, and before it by custom).
_WITH_PORT: Final = re.compile(r"\[([0-9A-Fa-f:.%\w]+)\](?::\d{1,5})?|(\d+\.\d+\.\d+\.\d+):\d{1,5}")
_FORWARDED: Final = b"x-forwarded-for"
_LONGEST: Final = 64
_ONE_HOUSE: Final = 8  # bytes of an IPv6 address that one customer has


def networks_of(text: str) -> tuple[Network, ...]:
    """Return networks and addresses that are written with commas between them; raises ``ValueError``.

    IPv4 in IPv6 (``::ffff:10.0.0.0/104``) is IPv4.
    """
    return tuple(_plain_network(entry.strip()) for entry in text.split(",") if entry.strip())


def client_address(peer: str, headers: Iterable[tuple[bytes, bytes]], trusted: Collection[Network]) -> str:
    """Return the first address, from the bus outwards, that is not one of a trusted proxy.

    It has no port, and is one of IPv4 where it is that in IPv6.

    Parameters
    ----------
    peer
        Who is connected.
    headers
        Of the request, names in lower case; what a client itself writes into ``X-Forwarded-For`` counts for nothing.
    trusted
        Proxies that add to it whom they serve.
    """
    forwarded = [value.decode("latin-1") for name, value in headers if name == _FORWARDED]
    hops = [hop.strip() for field in forwarded for hop in field.split(",")]
    address = _plain(peer)
    while hops and is_in(address, trusted):
        address = _plain(hops.pop())
    return address[:_LONGEST]


def network_of(address: str) -> str:
    """Return the network that counts as one customer: an address of IPv4, a /64 of IPv6."""
    try:
        packed = inet_pton(AF_INET6, address.partition("%")[0])
    except (OSError, ValueError):
        return address
    return inet_ntop(AF_INET6, packed[:_ONE_HOUSE].ljust(len(packed), b"\0")) + f"/{8 * _ONE_HOUSE}"


def _plain(address: str) -> str:
    """Return an address as it is compared; what is none, as it is."""
    with_port = _WITH_PORT.fullmatch(address.strip('"'))
    bare = (with_port[1] or with_port[2]) if with_port is not None else address
    try:
        found = ip_address(bare)
    except ValueError:
        return address
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return str(mapped or found)


def _plain_network(text: str) -> Network:
    found = ip_network(text, strict=False)
    if isinstance(found, IPv4Network) or not found.subnet_of(MAPPED):
        return found
    return ip_network((int(found.network_address) & 0xFFFFFFFF, found.prefixlen - MAPPED.prefixlen))


def is_in(address: str, networks: Collection[Network]) -> bool:
    """Whether an address is in one of these networks; what is none is in none."""
    if not networks:
        return False
    try:
        found = ip_address(_plain(address))
    except ValueError:
        return False
    return any(found.version == network.version and found in network for network in networks)
