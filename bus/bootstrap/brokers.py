"""A road for each broker whose servers the settings name; what only one of them needs is imported for it alone."""

from __future__ import annotations

import random

from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.ports.transport import Transport
from bus.settings import Settings


def open_brokers(settings: Settings, quarantine: Quarantine, clock: Clock) -> list[Transport]:
    """Return the roads; none connects before ``run``. Raises ``ConfigurationError`` with the setting that is wrong."""
    found: list[Transport] = []
    if settings.nsq_lookupd or settings.nsq_nsqd:
        found.append(_nsq(settings, quarantine, clock))
    return found


def _nsq(settings: Settings, quarantine: Quarantine, clock: Clock) -> Transport:
    from bus.transports import nsq  # noqa: PLC0415

    config = nsq.NsqConfig(
        nsqd=nsq.parse_nsqd(settings.nsq_nsqd),
        lookupd=nsq.parse_lookupd(settings.nsq_lookupd),
        tls=nsq.verifying(settings.nsq_ca) if settings.nsq_tls else None,
        auth_secret=settings.nsq_auth_secret,
        compression=nsq.Compression(settings.nsq_compression),
    )
    return nsq.NsqTransport(config, quarantine, clock, random.random)
