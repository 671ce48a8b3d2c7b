"""Settings from ``bus.toml`` and ``BUS_*`` environment variables; the environment wins.

Unknown keys and impossible values stop the start with the key, the value and what is expected.
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from bus.errors import ConfigurationError

_PREFIX = "BUS_"
_REFERENCE: Final = "see docs/configuration.md for every key"
_MOST_PROCESSES: Final = 64
_MOST_PORT: Final = 65_535
_SERVER: Final = re.compile(r"(?:[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
# What ZooKeeper keeps for itself, and names that stand for folders, are no places for documents.
_ZNODES: Final = re.compile(r"(?!zookeeper(?:/|$))(?!(?:.*/)?\.\.?(?:/|$))[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_PORTS = {"receiver": 8700, "admin": 8701, "lookup": 4161}
# Read by the SDK and the command line, not by the services.
_CLIENT_VARIABLES = frozenset({"BUS_URL", "BUS_CONTEXT"})

GroupName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]


class AlarmRule(BaseModel):
    """What is otherwise in a rule of alarms. Durations such as ``5m``; ``limit`` is one where the rule's is a time."""

    model_config = ConfigDict(extra="forbid")

    hold: str = ""
    clear: str = ""
    limit: float | str | None = None
    severity: Literal["critical", "warning", "info"] | None = None
    off: bool = False


class AlarmChannel(BaseModel):
    """A way to reach people, as `bus.domain.health.channels.Channel` has it.

    Attributes
    ----------
    quiet
        ``22:00-07:00``, in ``timezone``.
    """

    model_config = ConfigDict(extra="forbid")

    url: str = Field(min_length=1)
    severity: Literal["critical", "warning", "info"] = "warning"
    after: str = ""
    quiet: str = Field(default="", pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9])?$")
    timezone: str = "UTC"
    owners: list[str] = []
    repeat: str = ""
    heartbeat: str = ""


class PipelineSettings(BaseModel):
    """What ``bus pipeline serve`` runs, and when (docs/pipeline.md). Durations such as ``25h``.

    Attributes
    ----------
    lake
        Folder of the lake's tables, or ``s3a://BUCKET/PATH``, ``hdfs://HOST/PATH``; empty for ``lake`` below ``data``.
    every
        Seconds from one batch of the rollup to the next.
    timezone
        Of the cron expressions below, each of five fields; an empty one is for a job that runs when somebody wants it.
    reconcile, judge, compact, baseline, archive
        When each job runs.
    reconcile_range
        Which messages a proof is of, by their age.
    reconcile_allowance, reconcile_horizon
        For how long a message is too young to be judged, and for how long deliveries are retried at most.
    compact_after, compact_vacuum
        After how long an hour's commits are put together, and for how long what was replaced stays.
    baseline_weeks
        Of history that norms are made from.
    archive_days
        After how many days messages go from the store to the lake.
    """

    model_config = ConfigDict(extra="forbid")

    lake: str = ""
    every: float = Field(default=2.0, ge=0.5, le=60)
    timezone: str = "UTC"
    reconcile: str = "*/15 * * * *"
    judge: str = "20 * * * *"
    compact: str = "7 * * * *"
    baseline: str = "40 0 * * *"
    archive: str = ""
    reconcile_range: str = "25h"
    reconcile_allowance: str = "10m"
    reconcile_horizon: str = "7d"
    compact_after: str = "1h"
    compact_vacuum: str = "24h"
    baseline_weeks: int = Field(default=8, ge=1)
    archive_days: int = Field(default=14, ge=1)


class Settings(BaseSettings):
    """Everything that can be set. Sizes in bytes, times in seconds.

    Attributes
    ----------
    host
        The address that it listens on; any but loopback needs a key or a user first.
    data
        Directory of the spools and, unless ``store`` says otherwise, of the store.
    port
        Left out: 8700 for a receiver, 8701 for an admin without one, any free port for the other roles.
    processes
        How many processes of ``bus up`` serve the port together; ``auto`` for one on each core.
    advertise
        URL at which the other processes of this bus reach this one; needed when ``host`` stands for every address.
    node
        Names this process in traces; two on one host differ. Empty: the host's name and the port.
    log_level, log_json
        What the log on standard error has, and whether each of its lines is JSON.
    store
        Where traces are kept: ``sqlite:///path``, ``mongodb://host/database``, or empty for SQLite under ``data``.
    spool_limit
        Size at which a spool refuses new records; old ones are never dropped.
    disk_reserve
        Free disk kept for outcomes; receivers answer 507 below it. None: 256 MiB or 10 % of the disk, the smaller.
    zookeeper
        ``HOST:PORT,HOST:PORT/PATH`` of the ensemble in which strictly ordered destinations agree; without a path below
        ``/bus``. Empty: in the store.
    kafka_bootstrap
        ``HOST:PORT`` of Kafka brokers, comma separated.
    kafka_prefix
        Put before the names of topics, on a cluster that others use as well.
    kafka_tls, kafka_ca, kafka_cert, kafka_key
        Encrypt; by which authority's certificate; and what to show a broker that asks (PEM files).
    kafka_username, kafka_password, kafka_mechanism
        For SASL.
    kafka_partitions, kafka_replication, kafka_min_insync_replicas
        Of topics that the bus makes; copies: None for three or as many as there are brokers, and for the broker's own.
    kafka_groups, rabbitmq_groups
        Groups of brokers for strictly ordered destinations by name: ``HOST:PORT,HOST:PORT`` of two Kafka brokers,
        ``amqp://USER:PASSWORD@HOST:PORT,HOST:PORT,HOST:PORT/VHOST`` of three RabbitMQ nodes.
    strict_takeover
        Seconds (2 to 60) after the last sign of life of the process that sends to a strict order, or reads it, until
        another one takes over.
    kafka_fsync
        Have Kafka groups write each message to disk before they confirm it.
    rabbitmq_primary, rabbitmq_backup
        ``amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST`` of two clusters, ``amqps`` for TLS.
    rabbitmq_management
        Where the management plugin of ``primary`` and ``backup`` is asked how the cluster is:
        ``http://USER:PASSWORD@HOST:PORT,HOST:PORT``, or ``auto`` for the hosts and the login of the cluster.
    nsq_lookupd, nsq_nsqd
        NSQ's servers, comma separated: ``HOST:HTTP_PORT`` of each nsqlookupd, ``HOST:TCP_PORT[/HTTP_PORT]`` of each
        nsqd. Without nsqds, messages go to every one that an nsqlookupd knows.
    nsq_syncdisk
        Of these topics: after so many messages a partition is written to disk; 0 for the nsqd's own.
    nsq_partitions, nsq_replication
        Of topics that the bus makes on a cluster of Youzan's fork.
    nsq_read_partitions
        Numbers of the partitions that this process consumes, comma separated; all of them when left out.
    nsq_tls, nsq_ca, nsq_auth_secret, nsq_compression
        Encrypt every connection, by which authority's certificate (PEM); what to show an nsqd that asks; and
        ``snappy`` or ``deflate``.
    lookup_config
        The file that tells a lookup proxy which clusters of NSQ each topic is produced to and consumed from.
    events
        Where trace events go: ``files`` under ``data``, ``kafka``, or nowhere.
    events_limit
        Bytes of closed files of trace events beyond which the oldest are removed.
    events_topic
        Of trace events on Kafka, after ``kafka_prefix``.
    otel_endpoint
        Where a collector takes OTLP over HTTP, ``http://127.0.0.1:4318``; empty for no spans (docs/tracing.md).
    otel_headers
        What it wants to be shown, ``name=value,name=value``.
    otel_ratio
        The share of messages whose spans are recorded, of those that come without a trace of their producer's.
    otel_service
        What this bus is called in traces.
    sweep, sweep_idle
        Directories below which a sweeper looks for queues whose process is gone, comma separated (else ``data``), and
        after how long without a change it takes one.
    alarm_channels
        Who is told of alarms, by name, and how (docs/alarms.md).
    alarm_rules
        What is otherwise in the rules of alarms, by rule.
    pipeline
        What ``bus pipeline serve`` runs, and when (docs/pipeline.md).
    api_key
        What a sweeper, a pipeline, and what tells of the bus's own events, shows to the bus once there are keys.
    secret_key, secret_key_old
        Encrypts secrets at rest; and the key before it, until ``bus secrets reseal`` has run.
    egress_allow, egress_deny
        Networks or host names, comma separated, that subscriber URLs may or may not reach beyond the defaults.
    audit_retention_days
        How long the audit log keeps an entry.
    trusted_proxies
        Networks or addresses, comma separated, of reverse proxies: their ``X-Forwarded-For`` says who makes a request.
    session_idle, session_lifetime
        After how long a person's session ends without a request, and in any case.
    public_url
        Where people's browsers reach the admin, ``https://bus.example.com``; needed behind a proxy that ends TLS.
    oidc_issuer, oidc_client_id, oidc_client_secret
        An OpenID Connect provider at which people may log in, and what it knows this bus as.
    oidc_label, oidc_scopes, oidc_algorithms
        What a login page calls it; what is asked of it; and what its tokens may be signed with, comma separated.
    oidc_name_claim, oidc_role_claim, oidc_roles, oidc_destinations_claim
        Which claims are a user's name and groups; the groups of each role, ``admin=ops; viewer=*``; and the claim that
        lists the destinations of operators and viewers, empty for no limit.
    metrics_key
        What a scraper of ``/metrics`` has to show as ``Authorization: Bearer``; empty for nothing.
    receive_timeout
        Deadline for receiving one request.
    drain_timeout
        How long a stop waits for requests in flight.
    sockets, sockets_per_address
        How many WebSockets of pages are open at once: in this process, and of one address (a /64 of IPv6).
    keyless_requests, keyless_connections
        What an address (a /64 of IPv6) may take without a valid key or session: requests and new connections a second,
        connections at once.
    """

    model_config = SettingsConfigDict(env_prefix=_PREFIX, extra="forbid")

    host: str = "127.0.0.1"
    port: int | None = Field(default=None, ge=0, le=65535)
    processes: int | Literal["auto"] = 1
    advertise: str = ""
    data: Path = Path("data")
    store: str = ""
    node: str = ""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_json: bool = False
    spool_limit: int = Field(default=16 * 2**30, ge=2**20)
    disk_reserve: int | None = Field(default=None, ge=0)
    zookeeper: str = ""
    kafka_bootstrap: str = ""
    kafka_prefix: str = ""
    kafka_tls: bool = False
    kafka_ca: Path | None = None
    kafka_cert: Path | None = None
    kafka_key: Path | None = None
    kafka_username: str = ""
    kafka_password: str = ""
    kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "PLAIN"
    kafka_partitions: int = Field(default=6, ge=1)
    kafka_replication: int | None = Field(default=None, ge=1)
    kafka_min_insync_replicas: int | None = Field(default=None, ge=1)
    strict_takeover: float = Field(default=6.0, ge=2, le=60)
    kafka_groups: dict[GroupName, str] = {}
    kafka_fsync: bool = False
    rabbitmq_groups: dict[GroupName, str] = {}
    rabbitmq_primary: str = ""
    rabbitmq_backup: str = ""
    rabbitmq_management: dict[Literal["primary", "backup"], str] = {}
    nsq_lookupd: str = ""
    nsq_nsqd: str = ""
    nsq_partitions: int = Field(default=2, ge=1, le=255)
    nsq_replication: int = Field(default=1, ge=1, le=5)
    nsq_syncdisk: int = Field(default=1, ge=0, le=100_000)
    nsq_read_partitions: str = ""
    nsq_tls: bool = False
    nsq_ca: Path | None = None
    nsq_auth_secret: str = ""
    nsq_compression: Literal["", "snappy", "deflate"] = ""
    lookup_config: Path | None = None
    events: Literal["none", "files", "kafka"] = "files"
    events_limit: int = Field(default=2**30, ge=2**20)
    events_topic: str = Field(default="bus-events", pattern=r"^[A-Za-z0-9.-]{1,180}$")
    otel_endpoint: str = ""
    otel_headers: str = ""
    otel_ratio: float = Field(default=1.0, ge=0, le=1)
    otel_service: str = Field(default="pier", min_length=1, max_length=200)
    sweep: str = ""
    sweep_idle: float = Field(default=60.0, ge=0)
    alarm_channels: dict[GroupName, AlarmChannel] = {}
    alarm_rules: dict[str, AlarmRule] = {}
    pipeline: PipelineSettings = PipelineSettings()
    api_key: str = ""
    secret_key: str = ""
    secret_key_old: str = ""
    egress_allow: str = ""
    egress_deny: str = ""
    audit_retention_days: int = Field(default=365, ge=1, le=36_500)
    trusted_proxies: str = ""
    session_idle: float = Field(default=1800.0, ge=60)
    session_lifetime: float = Field(default=43_200.0, ge=60)
    public_url: str = Field(default="", pattern=r"^(https?://[^/?#\s]+)?/?$")
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_client_secret: str = ""
    oidc_label: str = Field(default="Single sign-on", max_length=100)
    oidc_scopes: str = "openid profile email"
    oidc_algorithms: str = "RS256,PS256,ES256,EdDSA"
    oidc_name_claim: str = "preferred_username"
    oidc_role_claim: str = "groups"
    oidc_roles: str = ""
    oidc_destinations_claim: str = ""
    metrics_key: str = ""
    receive_timeout: float = Field(default=30.0, gt=0)
    drain_timeout: float = Field(default=30.0, gt=0)
    sockets: int = Field(default=1000, ge=1)
    sockets_per_address: int = Field(default=100, ge=1)
    keyless_requests: float = Field(default=200, gt=0)
    keyless_connections: int = Field(default=256, ge=1)

    @field_validator("processes", mode="before")
    @classmethod
    def _is_number_or_auto(cls, value: object) -> object:
        if value == "auto":
            return value
        text = str(value)
        if not (text.isdecimal() and 1 <= int(text) <= _MOST_PROCESSES):
            raise ValueError(f"a number from 1 to {_MOST_PROCESSES}, or auto")
        return int(text)

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        for entry in filter(None, map(str.strip, value.split(","))):
            if not _is_network(entry):
                raise ValueError("networks or addresses with commas between: 10.0.0.0/8,192.0.2.7")
        return value

    @field_validator("zookeeper")
    @classmethod
    def _is_ensemble(cls, value: str) -> str:
        servers, slash, path = value.partition("/")
        has_path = _ZNODES.fullmatch(path) if slash else not path
        if value and not (all(map(_is_server, servers.split(","))) and has_path):
            raise ValueError("HOST:PORT, several with commas between, and /PATH after the last: zk1:2181,zk2:2181/bus")
        return value

    def reserve(self, total: int) -> int:
        """Return the free bytes that are kept for outcomes on a disk of ``total`` bytes."""
        return min(256 * 2**20, total // 10) if self.disk_reserve is None else self.disk_reserve

    def port_for(self, roles: Sequence[str]) -> int:
        """Return the port that a process listens on; 0 for any that is free, for roles that nobody calls by it."""
        if self.port is not None:
            return self.port
        return next((port for role, port in _PORTS.items() if role in roles), 0)

    @property
    def number_of_processes(self) -> int:
        """How many processes serve the port together."""
        return min(len(os.sched_getaffinity(0)), _MOST_PROCESSES) if self.processes == "auto" else self.processes

    @property
    def is_loopback(self) -> bool:
        """Whether the bind address is reached from this machine only."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def _is_server(text: str) -> bool:
    found = _SERVER.fullmatch(text)
    return found is not None and 0 < int(found[1]) <= _MOST_PORT


_TABLES: Final[dict[str, type[BaseModel]]] = {
    "alarm_channels": AlarmChannel,
    "alarm_rules": AlarmRule,
    "pipeline": PipelineSettings,
}


def load_settings(config: Path | None, overrides: dict[str, Any]) -> Settings:
    """Read the configuration; ``overrides`` come from the command line and win over all.

    Raises
    ------
    ConfigurationError
        The file cannot be read, a key is unknown, or a value is impossible.
    """
    values = _read(config) if config is not None else {}
    _refuse_unknown(os.environ)
    # The environment wins over the file, and the command line over both.
    kept = {key: value for key, value in values.items() if f"{_PREFIX}{key}".upper() not in os.environ}
    try:
        return Settings(**{**kept, **{key: value for key, value in overrides.items() if value is not None}})
    except ValidationError as error:
        from bus.settings_errors import explain  # noqa: PLC0415 - only where something is wrong

        raise ConfigurationError(explain(error, Settings, _TABLES), hint=_REFERENCE) from error
    except SettingsError as error:
        raise ConfigurationError(_not_json(error), hint=_REFERENCE) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}", hint="check --config") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}", hint="see docs/configuration.md") from error


def _refuse_unknown(environment: os._Environ[str]) -> None:
    known = {f"{_PREFIX}{name}".upper() for name in Settings.model_fields} | _CLIENT_VARIABLES
    wrong = [
        name
        for name in environment
        if name.startswith(_PREFIX) and name not in known and not name.startswith(("BUS_TEST_", "BUS_PROOF_"))
    ]
    if wrong:
        from bus.settings_errors import unknown  # noqa: PLC0415 - only where something is wrong

        told = (unknown(name, sorted(known), " in the environment") for name in wrong)
        raise ConfigurationError("; ".join(told), hint=_REFERENCE)


def _not_json(error: SettingsError) -> str:
    """Say which variable is not JSON where a map is wanted; its value may have passwords, and is not repeated."""
    found = re.search(r'"(\w+)"', str(error))
    name = found[1] if found else "a setting"
    return (
        f'{name}: {_PREFIX}{name.upper()} is not JSON; expected a table of names and values such as {{"NAME": "VALUE"}}'
    )
