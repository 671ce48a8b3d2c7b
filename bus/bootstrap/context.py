"""What roles of one process share, and how a role is found."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Final, Protocol

import msgspec

from bus.cluster.member import Member
from bus.cluster.members import Members
from bus.cluster.peers import PeerKey, Peers
from bus.cluster.report import Lane, Report, Reports
from bus.cluster.sampling import Sampler
from bus.cluster.waiting import figures
from bus.domain.health.vitals import BreakerFigures, Orphan, RejectedFigures, TurnedAwayFigures, WorkerFigures
from bus.errors import ConfigurationError
from bus.ports.clock import Clock
from bus.ports.dispatching import Dispatching
from bus.ports.events import Events
from bus.ports.poster import Poster
from bus.ports.sampling import Sampling
from bus.ports.spool import Spool
from bus.ports.store import Store
from bus.ports.transport import Lag
from bus.registry import Registry
from bus.security.egress import EgressPolicy
from bus.security.keyring import Keyring
from bus.settings import Settings
from bus.stores.rollups import Rollups
from bus.transports.router import TransportRouter

_PUBLISHER: Final = "receiver"
_BREAKERS_TOLD: Final = 100
Fill = Callable[[], None]
ROLES: Final = ("dispatcher", "receiver", "compensator", "admin")


@dataclass
class Context:
    """What roles of one process share.

    ``owner`` names its leases, also after a restart; ``dispatching`` is the dispatcher's role when it is there,
    else the way to those of other processes; ``carried`` is what its workers have of their transports, ``workers``
    their permits, ``breakers`` those that are not closed; ``sampling`` sends samples. ``orphans`` is what its sweeper
    sees below ``swept``; ``rejected`` is what its receiver refused for good, ``turned_away`` what it refuses for now.
    ``spools`` has those that its roles need. A meter looks at what is to be measured, and returns what sets the gauges
    of it, which runs in a thread.
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
    egress: EgressPolicy
    spools: dict[str, Spool]
    members: Members
    peer_key: PeerKey
    peers: Peers
    dispatching: Dispatching
    rollups: Rollups
    events: Events
    carried: Callable[[], Mapping[tuple[str, str], Lag]] = dict
    workers: Callable[[], list[WorkerFigures]] = list
    breakers: Callable[[], dict[str, BreakerFigures]] = dict
    orphans: Callable[[], list[Orphan]] = list
    rejected: Callable[[], list[RejectedFigures]] = list
    turned_away: Callable[[], list[TurnedAwayFigures]] = list
    swept: Sequence[str] = ()
    sampling: Sampling | None = None
    meters: list[Callable[[], Fill]] = field(default_factory=list)
    async_meters: list[Callable[[], Awaitable[Fill]]] = field(default_factory=list)
    conditions: dict[str, Callable[[], str]] = field(default_factory=dict)
    documented: dict[str, Any] = field(default_factory=dict)

    def health(self) -> dict[str, Any]:
        """Return a line for each part: its name, whether it is well, and what is wrong."""
        found, notes = self.own_conditions(), self.router.preference.notes()
        for member in self.members.others:
            where = f"{'+'.join(member.roles)} {member.url}"
            found |= {f"{name} ({where})": trouble for name, trouble in member.troubles.items()}
        checks = [
            {"name": name, "ok": not trouble, "detail": trouble or notes.get(name, "")}
            for name, trouble in found.items()
        ]
        return {"status": "degraded" if any(found.values()) else "ok", "node": self.node, "checks": checks}

    def publishers(self) -> dict[str, dict[str, str]]:
        """Return, by receiver's URL, the cluster that its messages go to, by transport."""
        me = self.members.me
        own = {me.url: self.router.preference.published_to} if "receiver" in me.roles else {}
        return own | {other.url: other.published_to for other in self.members.others if other.published_to}

    @property
    def sampler(self) -> Sampler:
        """The way to have a sample sent by a dispatcher."""
        return Sampler(self.members, self.peers, self.sampling)

    @property
    def reports(self) -> Reports:
        """The way to ask every process how it is."""
        return Reports(self.members, self.peers, self.report)

    def described(self) -> Member:
        """Return what the other processes need to know of this one now."""
        me, waiting, breakers = self.members.me, figures(self.spools, self.carried()), self.breakers()
        oldest = sorted(breakers, key=lambda lane: breakers[lane].since)[:_BREAKERS_TOLD]
        return msgspec.structs.replace(
            me,
            revision=self.registry.revision,
            unpublished=waiting.unpublished,
            unseen=waiting.unseen,
            held=waiting.held,
            published_to=self.router.preference.published_to if _PUBLISHER in me.roles else {},
            troubles={name: text for name, text in self.own_conditions().items() if text},
            spools=waiting.spools,
            breakers={lane: breakers[lane] for lane in oldest},
            open_breakers=len(breakers),
            orphans=len(self.orphans()),
            rejected=tuple(self.rejected()),
            turned_away=tuple(self.turned_away()),
        )

    def report(self) -> Report:
        """Return all that this process tells when it is asked."""
        return Report(
            member=self.described(),
            lanes=[
                Lane(name, *found)
                for name, spool in self.spools.items()
                for found in spool.stats().consumers
                if found.records
            ],
            workers=self.workers(),
            breakers=self.breakers(),
            orphans=self.orphans(),
            swept=list(self.swept),
        )

    def own_conditions(self) -> dict[str, str]:
        """Return what is wrong with each part of this process, by name; empty text for one that is well."""
        return {name: condition() for name, condition in self.conditions.items()} | self.router.conditions()


Asgi = Callable[..., Any]


class Service(Protocol):
    """A role at work in one process."""

    async def run(self, ready: asyncio.Event, stopping: asyncio.Event) -> None:
        """Set ``ready`` once it works; return after ``stopping`` when what it began is finished."""
        ...

    def routes(self) -> dict[str, Asgi]:
        """Return ASGI applications by path prefix."""
        ...


class Role(Protocol):
    """An entry point of the group ``bus.roles``."""

    def __call__(self, context: Context) -> Service:
        """Make the role's service."""
        ...


def load_roles(names: Sequence[str]) -> list[Role]:
    """Load roles by name; raises ``ConfigurationError`` for one that is not installed."""
    found = {entry.name: entry for entry in entry_points(group="bus.roles")}
    missing = [name for name in names if name not in found]
    if missing:
        raise ConfigurationError(f"unknown role {missing[0]!r}; there are: {', '.join(sorted(found))}")
    return [found[name].load() for name in names]
