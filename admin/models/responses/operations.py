"""Responses about processes with their slots and queues, spools, clusters, health, partitions and secrets."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import Listing, View
from admin.models.responses.overview import SpoolView
from bus.localized_text import LocalizedText


class TroubleView(View, kw_only=True):
    """A problem of a part of a process."""

    name: str
    detail: str
    detail_text: LocalizedText | None


class PermitsView(View, kw_only=True):
    """Slots of the concurrency limit at a dispatcher: those in use, and its share of all."""

    in_use: int
    share: int
    subscriptions: int


class ProcessStateView(View, kw_only=True):
    """The status that one process reports; ``permits`` of a dispatcher that answers."""

    owner: str
    node: str
    url: str
    roles: list[str]
    version: str
    started_at: str
    seen_seconds_ago: float
    answers: bool
    trouble: str
    trouble_text: LocalizedText | None
    revision: int
    is_current: bool
    troubles: list[TroubleView]
    spools: list[SpoolView]
    publishes_to: dict[str, str]
    permits: PermitsView | None
    open_breakers: int


class ProcessView(ProcessStateView, kw_only=True):
    """A process in the list of all; ``orphans`` is the number that a sweeper sees."""

    orphans: int


class ProcessesView(Listing[ProcessView], kw_only=True):
    """All processes, and the configuration that is in force."""

    revision: int


class WorkerView(View, kw_only=True):
    """The slots of one subscription at a dispatcher."""

    destination: str
    subscription: str
    in_use: int
    share: int
    max_concurrency: int
    waiting: int


class LaneView(View, kw_only=True):
    """The records of one stream of a queue that wait for one consumer."""

    spool: str
    lane: str
    consumer: str
    records: int
    oldest: str | None


class BreakerView(View, kw_only=True):
    """A breaker that is not closed."""

    destination: str
    subscription: str
    state: str
    since: str
    next_probe: str
    answered: int | None


class OrphanView(View, kw_only=True):
    """A local queue whose process has ended."""

    directory: str
    kind: str
    records: int | None
    bytes: int
    touched_at: str | None
    trouble: str


class ProcessDetailsView(ProcessStateView, kw_only=True):
    """A process, its slots, queues, breakers and orphans, the busiest first; null when it does not answer."""

    couriers: list[WorkerView] | None = None
    lanes: list[LaneView] | None = None
    breakers: list[BreakerView] | None = None
    orphans: list[OrphanView] | None = None
    watched: list[str] | None = None
    left_out: dict[str, int] | None = None


class FoundOrphanView(OrphanView, kw_only=True):
    """A local queue whose process has ended, and the sweeper that sees it."""

    owner: str
    node: str


class WatchView(View, kw_only=True):
    """A sweeper, and the directories that it watches."""

    owner: str
    node: str
    directories: list[str]
    answers: bool
    trouble: str
    trouble_text: LocalizedText | None


class OrphansView(Listing[FoundOrphanView], kw_only=True):
    """The local queues whose process has ended, as the sweepers see them."""

    watched: list[WatchView]


class DueTotalsView(View, kw_only=True):
    """Counts of deliveries that wait for another attempt, and of those that are due."""

    waiting: int
    due: int


class DueView(View, kw_only=True):
    """Deliveries of one subscription that wait for another attempt; without a subscription, messages for later."""

    destination: str
    subscription: str | None
    waiting: int
    due: int
    next_due: str | None


class CompensationsView(Listing[DueView], kw_only=True):
    """Deliveries that wait for another attempt, by subscription, the most first."""

    totals: DueTotalsView


class ConsumerView(View, kw_only=True):
    """The backlog of one consumer of a queue."""

    lane: str
    consumer: str
    records: int
    oldest: str | None


class OwnSpoolView(View, kw_only=True):
    """A local queue of the process that answers."""

    name: str
    records: int
    bytes: int
    limit: int
    damaged: int
    consumers: list[ConsumerView]


class ClusterView(View, kw_only=True):
    """A cluster, and the receivers that publish to it."""

    name: str
    transport: str
    preferred: bool
    ok: bool
    detail: str
    detail_text: LocalizedText | None
    published_by: list[str]


class ClustersView(Listing[ClusterView], kw_only=True):
    """The clusters of transports that have several, and the one that is preferred."""

    preferred: str | None


class CheckView(View, kw_only=True):
    """The health of one part."""

    name: str
    ok: bool
    detail: str


class HealthView(View, kw_only=True):
    """The health of a process and its parts: ``status`` is ``ok`` or ``degraded``."""

    status: str
    node: str
    checks: list[CheckView]


class DroppedView(View, kw_only=True):
    """A partition that was dropped, and how many messages it had."""

    dropped: str
    messages: int


class StaleView(View, kw_only=True):
    """Counts of subscriptions whose secret is not sealed with the current key, and of those resealed."""

    resealed: int | msgspec.UnsetType = msgspec.UNSET
    stale: int
