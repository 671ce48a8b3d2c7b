"""The services that each role gives to its process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from bus import call_watch
from bus.bootstrap.context import Context
from bus.cluster.activity import Activity
from bus.domain.health.vitals import (
    BreakerFigures,
    BrokerFigures,
    CertificateFigures,
    DiskFigures,
    Orphan,
    ProducerFigures,
    RejectedFigures,
    StoreFigures,
    TurnedAwayFigures,
    WorkerFigures,
)
from bus.events.emitter import Emitter
from bus.http.asgi import Field
from bus.http.endpoint import Endpoint
from bus.localized_text import AnyText
from bus.ports.dispatching import LocalDispatcher
from bus.ports.sampling import SamplePoster
from bus.ports.transport import Lag
from bus.posters.http import HttpPoster
from bus.spans.recorder import SpanRecorder

Asgi = Callable[..., Any]
Fill = Callable[[], None]


def _nothing() -> None:
    """Tell nothing."""


def _no_activity(_: str, __: str) -> Activity:
    return Activity()


@dataclass(frozen=True)
class RoleServices:
    """What one role, or several together, provide to the rest of the process; the defaults stand for nothing.

    Attributes
    ----------
    dispatching, sampling
        What due deliveries, and samples, are handed to.
    activity, carried, workers, active_workers, breakers
        Of a dispatcher: what it does for a subscription, what it holds of its transports, its permits, those of the
        subscriptions that have deliveries, and those of its breakers that are not closed.
    brokers, store, disks
        What the administration of clusters of brokers, and the store, tell of themselves; the disks of its directories.
    orphans, swept
        The abandoned queues that a sweeper sees, and the directories below which it looks.
    rejected, turned_away
        What a receiver refused for good, and what it refuses for now.
    producers
        Each returns queues of producers: those that told a receiver, those that a sweeper sees.
    known_producers
        Of a receiver, those that it has heard of.
    certificates
        Of subscribers, those that end soon.
    meters, async_meters
        Each takes the measurements, and returns a function that sets their gauges, which is run in a thread.
    conditions
        What is wrong with a part, by its name; empty text while it is well.
    documented
        Paths of the OpenAPI document that the role serves by itself.
    routes
        ASGI applications by path prefix.
    public
        Prefixes of routes that are answered under whatever name they are asked, also while there are no keys.
    credentials
        Whether a request's headers have a session or the like, as far as memory tells.
    endpoint
        Who takes some requests before they come to an application.
    """

    dispatching: LocalDispatcher | None = None
    sampling: SamplePoster | None = None
    activity: Callable[[str, str], Activity] = _no_activity
    carried: Callable[[], Mapping[tuple[str, str], Lag]] = dict
    workers: Callable[[], Iterable[WorkerFigures]] = list
    active_workers: Callable[[], list[WorkerFigures]] = list
    breakers: Callable[[], dict[str, BreakerFigures]] = dict
    brokers: Callable[[], list[BrokerFigures]] = list
    store: Callable[[], StoreFigures | None] = _nothing
    disks: Callable[[], list[DiskFigures]] = list
    orphans: Callable[[], list[Orphan]] = list
    swept: tuple[str, ...] = ()
    rejected: Callable[[], list[RejectedFigures]] = list
    turned_away: Callable[[], list[TurnedAwayFigures]] = list
    producers: tuple[Callable[[], list[ProducerFigures]], ...] = ()
    known_producers: Callable[[], list[ProducerFigures]] = list
    certificates: Callable[[], list[CertificateFigures]] = list
    meters: tuple[Callable[[], Fill], ...] = ()
    async_meters: tuple[Callable[[], Awaitable[Fill]], ...] = ()
    conditions: Mapping[str, Callable[[], AnyText]] = field(default_factory=dict)
    documented: Mapping[str, Any] = field(default_factory=dict)
    routes: Mapping[str, Asgi] = field(default_factory=dict)
    public: tuple[str, ...] = ()
    credentials: tuple[Callable[[Sequence[Field]], bool], ...] = ()
    endpoint: Endpoint | None = None

    def __or__(self, other: RoleServices) -> RoleServices:
        """Return both together; of a single value the other's, unless that is the default."""
        return RoleServices(
            **{each.name: _joined(getattr(self, each.name), getattr(other, each.name)) for each in _FIELDS}
        )


_FIELDS = fields(RoleServices)
_NOBODY = (None, dict, list, _nothing, _no_activity)


def _joined(mine: Any, others: Any) -> Any:
    if isinstance(others, Mapping):
        return {**mine, **others}
    if isinstance(others, tuple):
        return (*mine, *others)
    return mine if others in _NOBODY else others


def offers_of(context: Context) -> RoleServices:
    """Return what every process offers, whatever its roles are."""
    members, events, poster = context.members, context.events, context.poster
    conditions: dict[str, Callable[[], AnyText]] = {
        "configuration": lambda: context.registry.trouble,
        "clocks": lambda: members.clocks,
        "order": lambda: context.leaders.trouble,
        "connections": lambda: context.descriptors.trouble,
        "clients": call_watch.replaced,
    }
    if isinstance(events, Emitter):
        conditions["events"] = lambda: events.trouble
    if isinstance(spans := context.spans, SpanRecorder):
        conditions["spans"] = lambda: spans.trouble
    if members.me.is_dispatcher:
        conditions["permits"] = lambda: members.trouble
    if isinstance(poster, HttpPoster):
        return RoleServices(conditions=conditions, certificates=lambda: poster.certificates.told(context.clock.now()))
    return RoleServices(conditions=conditions)
