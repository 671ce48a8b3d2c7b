"""A transport for each broker whose servers the settings name; what only one of them needs is imported for it alone."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from bus.domain.destination import TransportName
from bus.errors import ConfigurationError
from bus.extras import extra
from bus.ports.broker_group import BrokerGroup
from bus.ports.broker_health import BrokerHealth
from bus.ports.clock import Clock
from bus.ports.events import EventSink
from bus.ports.quarantine import Quarantine
from bus.ports.transport import Transport
from bus.settings import Settings
from bus.transports.chains.chains import Groups

if TYPE_CHECKING:
    from bus.transports.kafka import KafkaConfig


def open_brokers(settings: Settings, quarantine: Quarantine, clock: Clock) -> list[Transport]:
    """Return the transports; none connects before ``run``. Raises ``ConfigurationError`` with the wrong setting."""
    found: list[Transport] = []
    if settings.kafka_bootstrap:
        found.append(_kafka(settings, quarantine, clock))
    if settings.rabbitmq_primary:
        found.append(_rabbitmq(settings, quarantine, clock))
    elif settings.rabbitmq_backup:
        raise ConfigurationError("rabbitmq_backup is set and rabbitmq_primary is not", hint="name the primary first")
    if settings.nsq_lookupd or settings.nsq_nsqd:
        found.append(_nsq(settings, quarantine, clock))
    return found


def open_groups(settings: Settings, quarantine: Quarantine, clock: Clock) -> Groups:
    """Return the groups of brokers of each transport, for strictly ordered destinations; none connects before ``run``.

    Raises
    ------
    ConfigurationError
        A setting is impossible, or an extra is missing.
    """
    kafka = {name: _kafka_group(settings, name, quarantine, clock) for name in sorted(settings.kafka_groups)}
    rabbitmq = {name: _rabbitmq_group(settings, name, quarantine, clock) for name in sorted(settings.rabbitmq_groups)}
    found = {TransportName.KAFKA: kafka, TransportName.RABBITMQ: rabbitmq}
    return {transport: groups for transport, groups in found.items() if groups}


def _kafka_group(settings: Settings, name: str, quarantine: Quarantine, clock: Clock) -> BrokerGroup:
    with extra("kafka"):
        from bus.transports.kafka import parse_bootstrap, strict  # noqa: PLC0415
    bootstrap = parse_bootstrap(settings.kafka_groups[name])
    config = replace(_kafka_config(settings, bootstrap), cluster=name)
    return strict.KafkaGroup(config, quarantine, clock, fsync=settings.kafka_fsync)


def _rabbitmq_group(settings: Settings, name: str, quarantine: Quarantine, clock: Clock) -> BrokerGroup:
    with extra("rabbitmq"):
        from bus.transports.rabbitmq import parse_cluster, strict  # noqa: PLC0415
    url = parse_cluster(settings.rabbitmq_groups[name], f"rabbitmq_groups.{name}")
    return strict.RabbitmqGroup(name, url, quarantine, clock, random.random)


def open_health(settings: Settings) -> list[BrokerHealth]:
    """Return what tells how clusters are, where the settings name it; none connects before it is asked.

    Raises
    ------
    ConfigurationError
        A setting is impossible, or names a cluster that the bus does not have.
    """
    urls = {"primary": settings.rabbitmq_primary, "backup": settings.rabbitmq_backup}
    return [_management(place, urls[place], where) for place, where in settings.rabbitmq_management.items() if where]


def _management(place: str, url: str, where: str) -> BrokerHealth:
    name = f"rabbitmq_management.{place}"
    if not url:
        raise ConfigurationError(f"{name} is set and rabbitmq_{place} is not", hint="name the cluster first")
    with extra("rabbitmq"):
        from bus.transports.rabbitmq import parse_cluster  # noqa: PLC0415
        from bus.transports.rabbitmq.management import Management, parse_management  # noqa: PLC0415
    parsed = parse_management(where, parse_cluster(url, f"rabbitmq_{place}"), name)
    return Management(f"rabbitmq-{place}", parsed)


def open_kafka_events(settings: Settings) -> EventSink:
    """Return the topic of trace events on the cluster that the settings name; it does not connect before a write.

    Raises
    ------
    ConfigurationError
        They name none, or a setting is impossible.
    """
    if not settings.kafka_bootstrap:
        raise ConfigurationError("events = 'kafka' needs kafka_bootstrap", hint="name the brokers, or take files")
    with extra("kafka"):
        from bus.transports import kafka  # noqa: PLC0415
    return kafka.KafkaEventSink(_kafka_config(settings, _bootstrap(settings)), settings.events_topic)


def _kafka(settings: Settings, quarantine: Quarantine, clock: Clock) -> Transport:
    with extra("kafka"):
        from bus.transports import kafka  # noqa: PLC0415
    return kafka.KafkaTransport(_kafka_config(settings, _bootstrap(settings)), quarantine, clock)


def _bootstrap(settings: Settings) -> tuple[str, ...]:
    from bus.transports import kafka  # noqa: PLC0415

    return kafka.parse_bootstrap(settings.kafka_bootstrap)


def _kafka_config(settings: Settings, bootstrap: tuple[str, ...]) -> KafkaConfig:
    from bus.transports import kafka  # noqa: PLC0415

    return kafka.KafkaConfig(
        bootstrap=bootstrap,
        prefix=settings.kafka_prefix,
        username=settings.kafka_username or None,
        password=settings.kafka_password or None,
        mechanism=settings.kafka_mechanism,
        tls=settings.kafka_tls,
        ca_file=settings.kafka_ca,
        cert_file=settings.kafka_cert,
        key_file=settings.kafka_key,
        partitions=settings.kafka_partitions,
        replication=settings.kafka_replication,
        min_insync_replicas=settings.kafka_min_insync_replicas,
    )


def _rabbitmq(settings: Settings, quarantine: Quarantine, clock: Clock) -> Transport:
    with extra("rabbitmq"):
        from bus.transports import rabbitmq  # noqa: PLC0415
    backup = settings.rabbitmq_backup
    config = rabbitmq.RabbitmqConfig(
        primary=rabbitmq.parse_cluster(settings.rabbitmq_primary, "rabbitmq_primary"),
        backup=rabbitmq.parse_cluster(backup, "rabbitmq_backup") if backup else None,
    )
    return rabbitmq.RabbitmqTransport(config, quarantine, clock, random.random)


def _nsq(settings: Settings, quarantine: Quarantine, clock: Clock) -> Transport:
    from bus.transports import nsq  # noqa: PLC0415

    config = nsq.NsqConfig(
        nsqd=nsq.parse_nsqd(settings.nsq_nsqd),
        lookupd=nsq.parse_lookupd(settings.nsq_lookupd),
        tls=nsq.verifying(settings.nsq_ca) if settings.nsq_tls else None,
        auth_secret=settings.nsq_auth_secret,
        compression=nsq.Compression(settings.nsq_compression),
        partitions=settings.nsq_partitions,
        replication=settings.nsq_replication,
        syncdisk=settings.nsq_syncdisk,
        read_partitions=nsq.parse_partitions(settings.nsq_read_partitions),
    )
    return nsq.NsqTransport(config, quarantine, clock, random.random)
