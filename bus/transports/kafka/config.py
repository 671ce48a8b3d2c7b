"""The configuration of the Kafka transport: connection, topics, and time-outs."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from bus.error_texts import error_text
from bus.errors import ConfigurationError
from bus.network.certificates import with_expiry_date

_SERVER: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:(?P<port>[0-9]{1,5}))?")
_DEFAULT_PORT: Final = 9092
_HIGHEST_PORT: Final = 65_535
_PREFIX: Final = re.compile(r"[A-Za-z0-9.-]{0,64}")
_MILLISECONDS: Final = 1000
_REBALANCE_SLACK: Final = 5.0
_CLIENT: Final = "pier"


@dataclass(frozen=True, kw_only=True)
class KafkaConfig:
    """Settings of one Kafka cluster. Times are in seconds, sizes in bytes.

    Attributes
    ----------
    bootstrap
        ``host:port`` of one or more brokers.
    cluster
        What the cluster is called in conditions and metrics.
    prefix
        Put before each topic's name, for clusters that others use as well.
    username, password, mechanism
        For SASL; no user name, no login.
    tls, ca_file
        Encrypt; trust what this file (PEM) says, or the system's authorities without one.
    cert_file, key_file
        What this client shows to a broker that asks for a certificate (PEM).
    partitions
        Of a topic made here; one that exists keeps its own.
    replication
        Copies of each partition of a topic made here; None takes three, or as many as there are brokers.
    min_insync_replicas
        Copies that must confirm; None leaves it to the broker.
    topic_settings
        What else is set on a topic made here.
    retention
        How long a topic made here keeps records, read or not.
    request_timeout
        After which an unanswered request means that the broker is unreachable.
    publish_timeout
        The longest that ``publish`` waits for confirmations.
    ensure_timeout
        The longest that ``ensure`` and ``remove`` take.
    refresh
        How often the cluster is asked for its topics and for what subscriptions still have to read.
    batch_bytes
        The largest batch of records; no topic made here takes less.
    window
        How far beyond its commit a subscription reads a partition while something there is unfinished, in records.
    buffer_records, buffer_bytes
        What a subscription fetches ahead of its subscriber.
    commit_interval
        How often finished records are committed.
    drain_timeout
        How long a rebalance waits for what a subscriber is just getting.
    revive_after
        A consumer that receives nothing for so long is made anew, from the bootstrap servers: the brokers may have
        moved.
    read_committed
        Consumers get only what was committed in a transaction, or written without one.
    session_timeout, heartbeat_interval, max_poll_interval
        As Kafka defines them: when the others take over from a process that died, or whose fetching stopped.
    """

    bootstrap: tuple[str, ...]
    cluster: str = "kafka"
    prefix: str = ""
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    partitions: int = 6
    replication: int | None = None
    min_insync_replicas: int | None = None
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    retention: float = 7 * 86_400.0
    request_timeout: float = 5.0
    publish_timeout: float = 5.0
    ensure_timeout: float = 15.0
    refresh: float = 1.0
    batch_bytes: int = 524_288
    window: int = 16_384
    buffer_records: int = 1000
    buffer_bytes: int = 4_194_304
    commit_interval: float = 0.25
    drain_timeout: float = 5.0
    revive_after: float = 30.0
    read_committed: bool = False
    session_timeout: float = 10.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0

    def __post_init__(self) -> None:
        """Refuse settings that cannot work.

        Raises
        ------
        ConfigurationError
            A setting is impossible; the text names it.
        """
        if not self.bootstrap:
            raise ConfigurationError("kafka: bootstrap names no broker")
        if not _PREFIX.fullmatch(self.prefix):
            raise ConfigurationError(f"kafka: prefix {self.prefix!r} is not up to 64 of a-z A-Z 0-9 . -")
        if (self.username is None) != (self.password is None):
            raise ConfigurationError("kafka: username and password go together")
        if (self.cert_file is None) != (self.key_file is None):
            raise ConfigurationError("kafka: cert_file and key_file go together")
        if not self.tls and (self.ca_file is not None or self.cert_file is not None):
            raise ConfigurationError("kafka: certificates are given and tls is off")

    @property
    def rebalance_timeout(self) -> float:
        """How long the group waits for each of its members to hand over and join again."""
        return self.drain_timeout + self.heartbeat_interval + _REBALANCE_SLACK

    def client_options(self) -> dict[str, Any]:
        """Return the arguments by which every aiokafka client connects.

        Raises
        ------
        ConfigurationError
            The file of authorities cannot be read.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.bootstrap),
            "client_id": _CLIENT,
            "security_protocol": self._protocol(),
            "request_timeout_ms": milliseconds(self.request_timeout),
            "ssl_context": self._trust() if self.tls else None,
        }
        if self.username is not None:
            options |= {
                "sasl_mechanism": self.mechanism,
                "sasl_plain_username": self.username,
                "sasl_plain_password": self.password,
            }
        return options

    def _protocol(self) -> str:
        login = "SASL_" if self.username is not None else ""
        return login + ("SSL" if self.tls else "PLAINTEXT")

    def _trust(self) -> ssl.SSLContext:
        try:
            trust = with_expiry_date(ssl.create_default_context(cafile=self.ca_file))
        except OSError as error:
            raise ConfigurationError(f"kafka: ca_file {self.ca_file}: {error_text(error)}") from error
        if self.cert_file is not None:
            try:
                trust.load_cert_chain(self.cert_file, self.key_file)
            except OSError as error:
                raise ConfigurationError(f"kafka: cert_file {self.cert_file}: {error_text(error)}") from error
        return trust


def parse_bootstrap(text: str) -> tuple[str, ...]:
    """Return ``host:port`` of each server of a comma-separated list; without a port it is 9092.

    Raises
    ------
    ConfigurationError
        An entry is no server; the text names it.
    """
    return tuple(_server(entry.strip()) for entry in text.split(",") if entry.strip())


def _server(entry: str) -> str:
    found = _SERVER.fullmatch(entry)
    port = int(found["port"] or _DEFAULT_PORT) if found else 0
    if found is None or not 0 < port <= _HIGHEST_PORT:
        raise ConfigurationError(
            f"kafka: {entry!r} is not host or host:port", hint="for example kafka1.example:9092,kafka2.example:9092"
        )
    return f"{found['host']}:{port}"


def milliseconds(seconds: float) -> int:
    """Return seconds as Kafka takes them."""
    return round(seconds * _MILLISECONDS)
