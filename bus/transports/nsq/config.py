"""The configuration of the NSQ transport: addresses, credentials, limits."""

from __future__ import annotations

import enum
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from bus.error_texts import error_text
from bus.errors import ConfigurationError
from bus.network.certificates import with_expiry_date

_PORTS: Final = range(1, 65536)


class Address(NamedTuple):
    """A host and a TCP port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class NsqdAddress(NamedTuple):
    """The address of an nsqd; ``http`` is the port of its HTTP API, None when it is not configured."""

    tcp: Address
    http: int | None = None


class Compression(enum.StrEnum):
    """How a connection is compressed."""

    NONE = ""
    SNAPPY = "snappy"
    DEFLATE = "deflate"


class NsqConfig(NamedTuple):
    """Settings of the transport; times in seconds.

    Attributes
    ----------
    nsqd
        Where to publish; empty: to every nsqd that an nsqlookupd lists. At least one of the two must be given.
    lookupd
        HTTP addresses of the nsqlookupds.
    tls
        Encrypts every connection to an nsqd and verifies it; no connection is made without.
    auth_secret
        Shown to an nsqd that asks for it.
    timeout
        Of one attempt: to connect, to publish a batch, to ask over HTTP.
    heartbeat
        Seconds between two heartbeats of nsqd; one that is silent for more than twice as long is given up.
    msg_timeout
        After how long nsqd delivers again what a dispatcher that died held; a live one extends it.
    max_in_flight
        Messages that one consumer holds, whatever it is asked for; up to twice as many for a moment, while shares
        move from one nsqd to another.
    lookup_interval, stats_interval
        How often the nsqlookupds, and each nsqd's figures, are asked.
    partitions, replication, syncdisk
        Of topics that the bus makes on a cluster of Youzan's fork: also after how many messages a partition is written
        to disk, 0 for the nsqd's own setting.
    read_partitions
        Those that are consumed, and nothing besides; all when empty.
    """

    nsqd: tuple[NsqdAddress, ...] = ()
    lookupd: tuple[Address, ...] = ()
    tls: ssl.SSLContext | None = None
    auth_secret: str = ""
    compression: Compression = Compression.NONE
    timeout: float = 5.0
    heartbeat: float = 5.0
    msg_timeout: float = 15.0
    max_in_flight: int = 1000
    lookup_interval: float = 15.0
    stats_interval: float = 1.0
    partitions: int = 2
    replication: int = 1
    syncdisk: int = 1
    read_partitions: frozenset[int] = frozenset()


def parse_nsqd(text: str) -> tuple[NsqdAddress, ...]:
    """Read ``HOST:TCP_PORT[/HTTP_PORT]``, comma separated.

    Raises
    ------
    ConfigurationError
        One of them is not of this form.
    """
    found: list[NsqdAddress] = []
    for entry in _entries(text):
        tcp, slash, http = entry.partition("/")
        found.append(NsqdAddress(_address(tcp, entry), _port(http, entry) if slash else None))
    return tuple(found)


def parse_lookupd(text: str) -> tuple[Address, ...]:
    """Read ``HOST:HTTP_PORT``, comma separated, each with or without ``http://``.

    Raises
    ------
    ConfigurationError
        One of them is not of this form.
    """
    return tuple(_address(entry.removeprefix("http://").rstrip("/"), entry) for entry in _entries(text))


def parse_partitions(text: str) -> frozenset[int]:
    """Read numbers of partitions, comma separated.

    Raises
    ------
    ConfigurationError
        One of them is no number.
    """
    found = _entries(text)
    for entry in found:
        if not (entry.isascii() and entry.isdigit()):
            raise ConfigurationError(f"{entry!r} is not the number of a partition", hint="for example 0,1,2")
    return frozenset(map(int, found))


def verifying(authority: Path | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities of a file, the system's when None is given.

    Raises
    ------
    ConfigurationError
        The file cannot be read or has no certificate.
    """
    try:
        return with_expiry_date(ssl.create_default_context(cafile=authority))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(
            f"cannot read certificates from {authority}: {error_text(error)}", hint="give a PEM file of the authority"
        ) from error


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _address(text: str, entry: str) -> Address:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in host:
        raise ConfigurationError(f"{entry!r} is not HOST:PORT", hint="for example 127.0.0.1:4150")
    return Address(host, _port(port, entry))


def _port(text: str, entry: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) in _PORTS):
        raise ConfigurationError(f"{entry!r}: {text!r} is not a port", hint="a port is 1-65535")
    return int(text)
