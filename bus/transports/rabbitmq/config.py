"""The configuration of the RabbitMQ transport: the two clusters, and time-outs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from bus.domain.destination import Destination
from bus.domain.message import check_destination
from bus.errors import ConfigurationError, InvalidDestination
from bus.localized_text import localized

_PORTS: Final = {"amqp": 5672, "amqps": 5671}
_OPTIONS: Final = ("cafile", "capath", "certfile", "keyfile", "no_verify_ssl")
_URL: Final = re.compile(
    r"(?P<scheme>amqps?)://(?:(?P<user>[^:@/]*)(?::(?P<password>[^@/]*))?@)?(?P<hosts>[^/?@]+)"
    r"(?:/(?P<vhost>[^?/]*))?(?:\?(?P<options>.*))?"
)
_HOST: Final = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[^:\[\]]+))(?::(?P<port>[0-9]{1,5}))?")
_MOST_PORT: Final = 65_535
MAX_MESSAGE_BYTES: Final = 16 * 2**20


class Host(NamedTuple):
    """One name or address of a cluster, and its port."""

    name: str
    port: int


class ClusterUrl(NamedTuple):
    """How to reach a cluster.

    Attributes
    ----------
    hosts
        All of them lead to the same cluster.
    vhost
        The virtual host.
    options
        For TLS: ``cafile``, ``capath``, ``certfile``, ``keyfile``, ``no_verify_ssl``.
    """

    user: str
    password: str
    hosts: tuple[Host, ...]
    vhost: str
    tls: bool
    options: dict[str, str]


class Patience(NamedTuple):
    """Deadlines and intervals in seconds.

    Attributes
    ----------
    heartbeat
        A broker gives up a connection on which it received nothing for two to three times as long.
    connect
        One attempt at one address, from the first packet to the open connection.
    answer
        Any other answer of the broker.
    confirm
        From a publish to its confirmation, besides the time that the bytes take.
    probe_every
        Between two questions whether a cluster confirms what is published.
    poll_every
        Between two looks at the queues, at least; a look at very many takes longer.
    repair_every
        Between two attempts to make a queue that could not be made.
    longest_backoff
        Between two attempts to connect, at most.
    idle
        After this time without a reader, messages that were fetched ahead go back to the queue.
    close
        For leaving in order.
    well_for
        The primary must have been well for so long before publishing goes back to it.
    failures
        Publishing leaves a cluster after so many batches in a row of which nothing was confirmed.
    spared
        A destination of which nothing was confirmed is not tried again on that cluster for so long; up to 12 times as
        long when that continues.
    forget_after
        How long the last known backlog of an unreachable cluster is taken for true.
    """

    heartbeat: int = 10
    connect: float = 5.0
    answer: float = 5.0
    confirm: float = 5.0
    probe_every: float = 2.0
    poll_every: float = 1.0
    repair_every: float = 2.0
    longest_backoff: float = 5.0
    idle: float = 60.0
    close: float = 5.0
    well_for: float = 10.0
    failures: int = 3
    spared: float = 5.0
    forget_after: float = 30.0


class RabbitmqConfig(NamedTuple):
    """Settings of the transport.

    Attributes
    ----------
    max_message_bytes
        The largest body that a destination may allow; 16 MiB is what every version of RabbitMQ takes by default.
    """

    primary: ClusterUrl
    backup: ClusterUrl | None = None
    patience: Patience = Patience()
    max_message_bytes: int = MAX_MESSAGE_BYTES


def check_limits(destination: Destination, limit: int = MAX_MESSAGE_BYTES) -> None:
    """Raise ``InvalidDestination`` for a code, or a size, that brokers do not take."""
    check_destination(destination.code)
    if destination.max_bytes > limit:
        raise InvalidDestination(
            localized(
                "messages of {size} bytes are more than the {limit} that RabbitMQ is sure to take",
                size=destination.max_bytes,
                limit=limit,
            ),
            hint=localized("lower max_bytes, or choose another transport"),
            field="max_bytes",
        )


def parse_cluster(text: str, setting: str) -> ClusterUrl:
    """Read ``amqp://user:password@host:5672,host:5672/vhost``; ``amqps`` for TLS.

    Parameters
    ----------
    setting
        What the value is called, for the error.

    Raises
    ------
    ConfigurationError
        It is not of this form; the text says what is wrong and never shows the password.
    """
    found = _URL.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(
            f"{setting} is not of the form amqp://user:password@host:5672,host:5672/vhost",
            hint="percent-encode : @ and / in user, password and virtual host",
        )
    options = dict(parse_qsl(found["options"] or "", keep_blank_values=True))
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ConfigurationError(f"{setting}: unknown option {unknown[0]!r}; allowed: {', '.join(_OPTIONS)}")
    return ClusterUrl(
        user=unquote(found["user"] or "guest"),
        password=unquote(found["password"] if found["password"] is not None else "guest"),
        hosts=tuple(_host(one, _PORTS[found["scheme"]], setting) for one in found["hosts"].split(",")),
        vhost=unquote(found["vhost"] or "/"),
        tls=found["scheme"] == "amqps",
        options=options,
    )


def _host(text: str, port: int, setting: str) -> Host:
    found = _HOST.fullmatch(text.strip())
    if found is None or not 0 < int(found["port"] or port) <= _MOST_PORT:
        raise ConfigurationError(f"{setting}: {text.strip()!r} is not host or host:port")
    return Host(found["six"] or found["name"], int(found["port"] or port))
