"""Processes with their permits and queues, spools, clusters, health, partitions and secrets."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import Listing, View
from admin.models.responses.overview import SpoolView
from bus.localized_text import LocalizedText


class TroubleView(View, kw_only=True):
    """What is wrong with a part of a process."""

    name: str
    detail: str
    detail_text: LocalizedText | None


class PermitsView(View, kw_only=True):
    """The permits of a dispatcher: in use, and its share of all."""

    in_use: int
    share: int
    subscriptions: int


class ProcessStateView(View, kw_only=True):
    """One process as it says it is; ``permits`` of a dispatcher that answers."""

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
    """A process in the list of all; ``orphans`` is how many a sweeper sees."""

    orphans: int


class ProcessesView(Listing[ProcessView], kw_only=True):
    """All processes, and the configuration that is in force."""

    revision: int


class WorkerView(View, kw_only=True):
    """The permits of one subscription at a dispatcher."""

    destination: str
    subscription: str
    in_use: int
    share: int
    max_concurrency: int
    waiting: int


class LaneView(View, kw_only=True):
    """What waits in one lane of a queue for one consumer."""

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
    """A local queue whose process is gone."""

    directory: str
    kind: str
    records: int | None
    bytes: int
    touched_at: str | None
    trouble: str


class ProcessDetailsView(ProcessStateView, kw_only=True):
    """A process, its permits, queues, breakers and orphans, the busiest first: null when it does not answer."""

    couriers: list[WorkerView] | None = None
    lanes: list[LaneView] | None = None
    breakers: list[BreakerView] | None = None
    orphans: list[OrphanView] | None = None
    watched: list[str] | None = None
    left_out: dict[str, int] | None = None


class FoundOrphanView(OrphanView, kw_only=True):
    """A local queue whose process is gone, and the sweeper that sees it."""

    owner: str
    node: str


class WatchView(View, kw_only=True):
    """A sweeper, and the directories that it looks at."""

    owner: str
    node: str
    directories: list[str]
    answers: bool
    trouble: str
    trouble_text: LocalizedText | None


class OrphansView(Listing[FoundOrphanView], kw_only=True):
    """The local queues whose process is gone, as the sweepers see them."""

    watched: list[WatchView]


class DueTotalsView(View, kw_only=True):
    """How much waits for another attempt, and how much of it is due."""

    waiting: int
    due: int


class DueView(View, kw_only=True):
    """What waits for another attempt for one subscription; without a subscription, messages to be published later."""

    destination: str
    subscription: str | None
    waiting: int
    due: int
    next_due: str | None


class CompensationsView(Listing[DueView], kw_only=True):
    """What waits for another attempt, the most first."""

    totals: DueTotalsView


class ConsumerView(View, kw_only=True):
    """How far one consumer of a queue is behind."""

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
    """Whether one part is well."""

    name: str
    ok: bool
    detail: str


class HealthView(View, kw_only=True):
    """What is well and what is not: ``status`` is ``ok`` or ``degraded``."""

    status: str
    node: str
    checks: list[CheckView]


class DroppedView(View, kw_only=True):
    """A partition that was dropped, and how many messages it had."""

    dropped: str
    messages: int


class StaleView(View, kw_only=True):
    """How many subscriptions have a secret that is not sealed with the current key, and how many were resealed."""

    resealed: int | msgspec.UnsetType = msgspec.UNSET
    stale: int
