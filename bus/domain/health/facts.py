"""Facts about the bus at one moment, as input of the alarm rules."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from bus.domain.destination import Destination
from bus.domain.health.findings import Findings
from bus.domain.health.progress import Progress
from bus.domain.health.vitals import (
    BreakerFigures,
    BrokerFigures,
    CertificateFigures,
    DiskFigures,
    ProducerFigures,
    RejectedFigures,
    SpoolFigures,
    StoreFigures,
    TurnedAwayFigures,
    UnreachableProcess,
)
from bus.domain.subscription import Subscription
from bus.localized_text import AnyText

Lane = tuple[str, str]
"""A destination and the name of a subscription."""


class Part(NamedTuple):
    """A part that is unhealthy, and the process that reports it."""

    name: str
    trouble: AnyText
    owner: str
    node: str


class Disk(NamedTuple):
    """A disk that a process has a directory on, and its machine."""

    owner: str
    host: str
    figures: DiskFigures


class ProducerQueue(NamedTuple):
    """A producer's local queue, and the machine of the process that reports it."""

    host: str
    figures: ProducerFigures


class Queue(NamedTuple):
    """A local queue of a process."""

    owner: str
    node: str
    name: str
    figures: SpoolFigures


class OpenBreaker(NamedTuple):
    """A breaker that is not closed in one dispatcher."""

    node: str
    destination: str
    subscription: str
    figures: BreakerFigures


class PublishTarget(NamedTuple):
    """The cluster that a receiver publishes to over a transport, the primary one, and whether a person chose it."""

    url: str
    transport: str
    cluster: str
    primary: str
    is_chosen: bool


class Backlog(NamedTuple):
    """Backlog on a subscription's transports, None where a broker cannot count it; ``oldest`` in ms, None for none."""

    records: int | None
    oldest: int | None


class DeliveryRates(NamedTuple):
    """Recent attempts of a subscription, how many of them failed, and p99 in milliseconds."""

    attempts: int
    failed: int
    p99: float | None


class Facts(NamedTuple):
    """The bus as it is known to be now.

    Attributes
    ----------
    now
        When that is, in milliseconds.
    roles
        The roles that live processes have.
    dead
        Deliveries that died within the last hour, by subscription; None while the store does not report them.
    unreachable
        Processes that cannot be reached.
    orphans
        How many orphaned queues wait, by the host that sees them.
    rejected
        Messages that receivers refused permanently within the last day.
    turned_away
        Messages that they refuse for now.
    producers
        Their queues, those with the oldest records.
    waiting
        By subscription, those for which something waits, or may.
    progress
        Progress of the backlog on brokers, by subscription, as far as that is known.
    delivering
        By subscription, those of the last minutes; None while the store does not report them.
    accepted
        Messages of the last complete ``VOLUME_WINDOW``, by destination; None while the store does not report them.
    findings
        Last findings of the pipeline; None while the store does not return them.
    saturated
        Subscriptions all of whose slots are in use while deliveries wait for one.
    held_by_rate
        Subscriptions whose deliveries wait for their rate.
    is_blind
        Whether the other processes have never been seen, since the store did not answer from the start.
    lasting
        Causes of incidents that are open: what follows from one is found for a while after it is mended.
    """

    roles: Collection[str]
    now: int = 0
    brokers: Sequence[BrokerFigures] = ()
    store: StoreFigures | None = None
    parts: Sequence[Part] = ()
    disks: Sequence[Disk] = ()
    queues: Sequence[Queue] = ()
    breakers: Sequence[OpenBreaker] = ()
    destinations: Mapping[str, Destination] = {}
    subscriptions: Collection[Subscription] = ()
    publishing: Sequence[PublishTarget] = ()
    dead: Mapping[Lane, int] | None = {}
    unreachable: Sequence[UnreachableProcess] = ()
    orphans: Mapping[str, int] = {}
    rejected: Sequence[RejectedFigures] = ()
    turned_away: Sequence[TurnedAwayFigures] = ()
    producers: Sequence[ProducerQueue] = ()
    certificates: Sequence[CertificateFigures] = ()
    waiting: Mapping[Lane, Backlog] = {}
    progress: Mapping[Lane, Progress] = {}
    delivering: Mapping[Lane, DeliveryRates] | None = None
    accepted: Mapping[str, int] | None = None
    findings: Findings | None = None
    saturated: Collection[Lane] = ()
    held_by_rate: Collection[Lane] = ()
    is_blind: bool = False
    lasting: Collection[str] = ()
