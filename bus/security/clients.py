"""Which address a request comes from, also through proxies."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from bus.security.addresses import Network

_LONGEST: Final = 64
_ONE_HOUSE: Final = 64  # bits of an IPv6 address that one customer has


def networks_of(text: str) -> tuple[Network, ...]:
    """Return networks and addresses that are written with commas between them; raises ``ValueError``."""
    return tuple(ip_network(entry.strip(), strict=False) for entry in text.split(",") if entry.strip())


def client_address(peer: str, forwarded: Iterable[str], trusted: Collection[Network]) -> str:
    """Return the first address, from the bus outwards, that is not one of a trusted proxy.

    Parameters
    ----------
    peer
        Who is connected.
    forwarded
        Every ``X-Forwarded-For`` of the request; what a client writes there itself counts for nothing.
    trusted
        Proxies that add to it whom they serve.
    """
    hops = [hop.strip() for field in forwarded for hop in field.split(",")]
    address = peer
    while hops and _is_in(address, trusted):
        address = hops.pop()
    return address[:_LONGEST]


def network_of(address: str) -> str:
    """Return the network that counts as one customer: an address of IPv4, a /64 of IPv6."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ip_network((found, _ONE_HOUSE), strict=False))
    return address


def _is_in(address: str, networks: Collection[Network]) -> bool:
    try:
        found = ip_address(address)
    except ValueError:
        return False
    return any(found.version == network.version and found in network for network in networks)
