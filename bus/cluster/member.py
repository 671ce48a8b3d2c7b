"""The document of a process in the store, by which others find it."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from bus.domain.delivery.concurrency_shares import View
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
)
from bus.localized_text import AnyText, LocalizedText

COLLECTION = "members"


def node_of(host: str, url: str) -> str:
    """Return the name of a process that has none of its own: its host and port, which no other has meanwhile."""
    return f"{host}:{urlsplit(url).port}"


def host_of(node: str) -> str:
    """Return the machine's part of a process's name."""
    return node.rpartition(":")[0] or node


class HeldMessages(msgspec.Struct, frozen=True, array_like=True):
    """Backlog of a dispatcher for a subscription, in its direct queue or on its way to the subscriber.

    How many, and since when (ms), None for nothing; ``queued`` of them are in the direct queue. Messages of that queue
    that a worker has are in ``records`` twice.
    """

    records: int
    oldest: int | None
    queued: int = 0


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One process of the bus, as its document describes it.

    Attributes
    ----------
    owner
        Its name for life and after a restart; its leases have it.
    group
        Of one of several processes that share slots on one machine, the name of the first; empty for any other.
    url
        Its address for the other processes.
    started_at
        When it was started, in milliseconds since the epoch; with ``owner`` the name of this run of the process.
    began
        The same by its present clock, which may have been put back since; 0 for one that does not report it.
    told_at
        When it reported this, by its clock; 0 for one that does not report it.
    revision
        Which state of the configuration it has in force.
    view
        Those that share slots, by ``sharer``; its own shares are no greater than that view allows.
    beyond
        The subscriptions of which it still has more requests in flight than its share.
    lapsed_for
        For how long (seconds) all dispatchers that it cannot reach have had no lease; None when it reaches all.
    unpublished, unseen
        By destination since when (ms) messages wait to be published, and outcomes for the store.
    held
        By ``destination/subscription``.
    published_to
        Of a receiver, the cluster that its messages go to now, by transport.
    troubles
        Errors of its parts, by name; none for a healthy one. ``trouble_texts`` has those that can be shown in another
        language.
    brokers
        Of the monitoring process, the state of the clusters as their administration reports it.
    store
        Of the monitoring process, the state of the store as it reports it.
    disks
        Those of its directories, as of the last minutes.
    spools
        Its local queues.
    breakers
        Those that are not closed, by ``destination/subscription``, some of them when there are many; ``open_breakers``
        is how many there are.
    orphans
        Of a sweeper, how many orphaned queues it sees.
    rejected
        Of a receiver, the messages that it refused permanently within the last day.
    turned_away
        Of a receiver, the messages that it refuses for now.
    producers
        Queues in which something has waited for a while: of a receiver those that producers report, of a sweeper those
        on its machine; some of them when there are many.
    certificates
        Of a dispatcher, those of subscribers that end within a month, some when there are many.
    saturated
        Subscriptions all of whose slots here are in use while deliveries wait for one, some when there are many.
    held_by_rate
        Subscriptions whose deliveries here wait for their rate, some when there are many.
    """

    owner: str
    node: str
    url: str
    roles: tuple[str, ...]
    version: str
    started_at: int
    group: str = ""
    began: int = 0
    told_at: int = 0
    revision: int = 0
    view: View = View()
    beyond: frozenset[str] = frozenset()
    lapsed_for: float | None = None
    unpublished: dict[str, int] = {}
    unseen: dict[str, int] = {}
    held: dict[str, HeldMessages] = {}
    published_to: dict[str, str] = {}
    troubles: dict[str, str] = {}
    trouble_texts: dict[str, LocalizedText] = {}
    brokers: tuple[BrokerFigures, ...] = ()
    store: StoreFigures | None = None
    disks: tuple[DiskFigures, ...] = ()
    spools: dict[str, SpoolFigures] = {}
    breakers: dict[str, BreakerFigures] = {}
    open_breakers: int = 0
    orphans: int = 0
    rejected: tuple[RejectedFigures, ...] = ()
    turned_away: tuple[TurnedAwayFigures, ...] = ()
    producers: tuple[ProducerFigures, ...] = ()
    certificates: tuple[CertificateFigures, ...] = ()
    saturated: tuple[str, ...] = ()
    held_by_rate: tuple[str, ...] = ()

    @property
    def since(self) -> int:
        """Time (ms) before which its records are of an earlier run, even if its clock was put back since."""
        return min(self.started_at, self.began) if self.began else self.started_at

    @property
    def sharer(self) -> str:
        """The name by which it shares slots: several processes with one name have the share of one."""
        return self.group or self.owner

    def address(self) -> Member:
        """Return its names, its address and its roles, and nothing that changes."""
        return Member(
            owner=self.owner,
            node=self.node,
            url=self.url,
            roles=self.roles,
            version=self.version,
            started_at=self.started_at,
            group=self.group,
        )

    def told_troubles(self) -> dict[str, AnyText]:
        """Return its troubles in the form for display."""
        return {name: self.trouble_texts.get(name, text) for name, text in self.troubles.items()}

    @property
    def is_dispatcher(self) -> bool:
        """Whether it delivers."""
        return "dispatcher" in self.roles
