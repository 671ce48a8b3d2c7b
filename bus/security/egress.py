"""Addresses that the bus may call: the public internet, unless a setting says otherwise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Final

from bus.errors import ConfigurationError, EgressDenied
from bus.localized_text import localized
from bus.security.addresses import Address, Network, embedded, not_public
from bus.security.urls import Endpoint, looks_numeric, normal_host, parse_url

_HINT: Final = localized("Allow it with BUS_EGRESS_ALLOW if that is intended.")
_LOOPBACK: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_INTERNAL_NAMES: Final = {
    "localhost": "127.0.0.1",
    "metadata.google.internal": "169.254.169.254",
    "metadata": "169.254.169.254",
    "instance-data": "169.254.169.254",
}


class EgressPolicy:
    """Decides about URLs and addresses; holds no state beyond its settings and does no I/O.

    Parameters
    ----------
    allow
        Networks (``10.1.0.0/16``), addresses and exact host names that may be called though the defaults deny them.
    deny
        The same, never called; this goes before ``allow``.
    allow_loopback
        Allow 127.0.0.0/8 and ::1.

    Raises
    ------
    ConfigurationError
        An entry is neither a network nor an address nor a host name.
    """

    def __init__(self, allow: Iterable[str] = (), deny: Iterable[str] = (), *, allow_loopback: bool = False) -> None:
        self._allowed = _Entries("egress_allow", allow)
        self._denied = _Entries("egress_deny", deny)
        if allow_loopback:
            self._allowed.networks.extend(_LOOPBACK)

    def check_url(self, url: str) -> Endpoint:
        """Take a subscriber's URL apart and check what is known without asking DNS.

        A literal address is read as the resolver would read it. A name's addresses are checked at connect.

        Raises
        ------
        EgressDenied
            The URL is not one that the bus calls, or its host is denied.
        """
        endpoint = parse_url(url)
        if endpoint.host in self._denied.hosts:
            raise EgressDenied(localized("The host {host} is denied by a setting.", host=endpoint.host))
        for address in endpoint.literals or _known(endpoint.host):
            self.check_address(address, endpoint.host)
        return endpoint

    def check_address(self, address: str, host: str = "") -> None:
        """Check one address; ``host`` is the name it was found under, for entries that name a host.

        An IPv4 address inside an IPv6 one has to be allowed as well.

        Raises
        ------
        EgressDenied
            With the reason. Also when it is not an address.
        """
        forms = _forms(address)
        if host in self._denied.hosts or any(form in self._denied for form in forms):
            raise EgressDenied(localized("The address {address} is denied by a setting.", address=address))
        if host in self._allowed.hosts:
            return
        for form in forms:
            if form not in self._allowed and (reason := not_public(form)):
                raise EgressDenied(
                    localized("The address {address} is {kind}.", address=address, kind=reason), hint=_HINT
                )


class _Entries:
    """A set of networks and host names; ``setting`` is what errors name."""

    def __init__(self, setting: str, entries: Iterable[str]) -> None:
        self._setting = setting
        self.networks: list[Network] = []
        self.hosts: set[str] = set()
        for entry in entries:
            self._add(entry)

    def __contains__(self, address: Address) -> bool:
        return any(address.version == network.version and address in network for network in self.networks)

    def _add(self, entry: str) -> None:
        try:
            self.networks.append(ip_network(entry, strict=False))
        except ValueError:
            self.hosts.add(self._host(entry))

    def _host(self, entry: str) -> str:
        with contextlib.suppress(EgressDenied):
            host = normal_host(entry)
            if not looks_numeric(host):
                return host
        raise ConfigurationError(
            f"{self._setting}: {entry!r} is neither a network (10.0.0.0/8), an address nor a host name"
        )


def _forms(address: str) -> list[Address]:
    try:
        outer = ip_address(address.partition("%")[0])
    except ValueError as error:
        raise EgressDenied(localized("{address} is not an address.", address=repr(address))) from error
    return [outer, *embedded(outer)]


def _known(host: str) -> tuple[str, ...]:
    name = "localhost" if host.endswith(".localhost") else host
    return (_INTERNAL_NAMES[name],) if name in _INTERNAL_NAMES else ()
