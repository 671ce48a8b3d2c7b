"""The resources that the roles of one process share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from bus.cluster.configuration import Configuration
from bus.cluster.leaders import Leaders
from bus.cluster.members import Members
from bus.cluster.peers import PeerKey, Peers
from bus.network.descriptors import Descriptors
from bus.ports.claims import Claims
from bus.ports.clock import Clock
from bus.ports.concurrency_slots import OWN_SLOTS, SlotPool
from bus.ports.events import Events
from bus.ports.poster import Poster
from bus.ports.spans import NO_SPANS, Spans
from bus.ports.spool import Spool
from bus.ports.store import Store
from bus.registry import Registry
from bus.security.egress import EgressPolicy
from bus.security.keyring import Keyring
from bus.settings import Settings
from bus.stores.feed import StoreFeed
from bus.stores.own_events import OwnEvents
from bus.stores.rollups import Rollups
from bus.transports.chains.chains import Chains
from bus.transports.router import TransportRouter


@dataclass(frozen=True)
class Context:
    """What roles of one process share.

    ``owner`` names its leases, also after a restart; ``spools`` has those that its roles need; ``claims`` and ``slots``
    are those of all processes of one port; ``configuration`` keeps that of ``registry`` current. ``due`` is set once
    this process has written work to the store that is due at once.
    """

    settings: Settings
    node: str
    owner: str
    clock: Clock
    noise: Callable[[], float]
    store: Store
    registry: Registry
    keyring: Keyring
    router: TransportRouter
    poster: Poster
    descriptors: Descriptors
    egress: EgressPolicy
    spools: dict[str, Spool]
    members: Members
    configuration: Configuration
    leaders: Leaders
    chains: Chains
    peer_key: PeerKey
    peers: Peers
    rollups: Rollups
    own_events: OwnEvents
    feed: StoreFeed
    claims: Claims | None
    events: Events
    slots: SlotPool = OWN_SLOTS
    spans: Spans = NO_SPANS
    due: asyncio.Event = field(default_factory=asyncio.Event)
