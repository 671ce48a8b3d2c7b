"""The next address of a cluster to try."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from bus.error_texts import error_text
from bus.ports.clock import Clock
from bus.transports.rabbitmq.config import Host

_log = logging.getLogger(__name__)
_SET_BACK: Final = 30.0

Lookup = Callable[[str, int], Awaitable[Sequence[str]]]


class Address(NamedTuple):
    """One address of one of a cluster's hosts; its certificate is checked against the name."""

    name: str
    ip: str
    port: int

    def __str__(self) -> str:
        """Show the name, and the address where it differs."""
        return f"{self.name}:{self.port}" if self.name == self.ip else f"{self.name}:{self.port} ({self.ip})"


async def system_lookup(name: str, port: int) -> Sequence[str]:
    """Ask the event loop, which raises OSError where a name has no address or no name server answers."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class Addresses:
    """The addresses of several hosts, in an order that spreads load and puts recently failed ones last.

    Parameters
    ----------
    within
        Seconds for looking one name up.
    noise
        Random numbers from 0 to 1.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        clock: Clock,
        noise: Callable[[], float],
        *,
        within: float,
        lookup: Lookup = system_lookup,
    ) -> None:
        self._hosts = hosts
        self._clock = clock
        self._noise = noise
        self._within = within
        self._lookup = lookup
        self._bad_until: dict[Address, float] = {}

    async def candidates(self) -> list[Address]:
        """Look every host up again and return all addresses in the order to try them; empty when none has any."""
        answers = await asyncio.gather(*(self._resolve(host) for host in self._hosts))
        found = dict.fromkeys(address for answer in answers for address in answer)
        now = self._clock.monotonic()
        self._bad_until = {address: until for address, until in self._bad_until.items() if until > now}
        return sorted(found, key=lambda address: (self._bad_until.get(address, 0.0), self._noise()))

    def failed(self, address: Address) -> None:
        """Put an address behind the others for a while."""
        self._bad_until[address] = self._clock.monotonic() + _SET_BACK

    def worked(self, address: Address) -> None:
        """Forget that an address failed."""
        self._bad_until.pop(address, None)

    async def _resolve(self, host: Host) -> list[Address]:
        with suppress(ValueError):
            return [Address(host.name, str(ipaddress.ip_address(host.name)), host.port)]
        try:
            async with asyncio.timeout(self._within):
                found = await self._lookup(host.name, host.port)
        except OSError as error:  # a TimeoutError is one
            _log.warning(
                "%s has no address: %s",
                host.name,
                error_text(error, host.name) if str(error) else f"no answer within {self._within:g} s",
            )
            return []
        return [Address(host.name, ip, host.port) for ip in dict.fromkeys(found)]
