"""Jobs under way that cure an alarm: resends and discards of its deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from admin.repair.jobs import Job, JobRepository, Kind, Orders
from bus.domain.delivery.delivery import Status
from bus.domain.searching.selection import Selection
from bus.observing.reading import CachedCall
from bus.ports.clock import Clock
from bus.security.keys import Action
from bus.security.principals import Principal

_KNOWN_FOR: Final = 2.0
_DEAD: Final = "dead"
# Rules about the deliveries of one subscription: what waits, fails or was given up.
_RULES: Final = frozenset({"breaker-open", "stalled", _DEAD, "backlog", "age", "latency", "errors", "saturated"})
# Conditions about messages: a job with one of them leaves most of what an alarm is about as it is.
_NARROW: Final = ("biz_id", "source", "text", "ref", "header", "body_path", "body_text")


class Cure(NamedTuple):
    """A job under way: ``ended`` of its ``total`` deliveries, which is None while it selects."""

    id: str
    kind: Kind
    state: str
    by: str
    ended: int
    total: int | None


class Cures:
    """Reads the jobs that are under way; each page that shows alarms calls it every few seconds."""

    def __init__(self, jobs: JobRepository, clock: Clock) -> None:
        self._jobs = jobs
        self._known = CachedCall(self._read, clock, least=_KNOWN_FOR)

    async def under_way(self) -> UnderWay:
        """Return the jobs that are not over, about two seconds old; none while the store is unavailable."""
        return UnderWay(await self._known.value() or [])

    async def _read(self) -> list[tuple[Job, Orders]]:
        jobs = [job for job in await self._jobs.all() if not job.is_done]
        orders = await self._jobs.all_orders() if jobs else {}
        known = [(job, orders.get(job.id, Orders())) for job in jobs]
        return [(job, ordered) for job, ordered in known if not ordered.canceled]


class UnderWay:
    """The jobs that are not over at one moment."""

    def __init__(self, jobs: Sequence[tuple[Job, Orders]]) -> None:
        self._jobs = jobs

    def of(self, rule: str, destination: str | None, subscription: str | None, principal: Principal) -> list[Cure]:
        """Return those that cure an alarm, and that a principal may see; none of an alarm that is about no deliveries.

        A job covers an alarm whatever its times are, and also if it takes one kind of failure.
        """
        if rule not in _RULES or destination is None or subscription is None:
            return []
        return [
            _cure(job, orders)
            for job, orders in self._jobs
            if _covers(job.selection, rule, destination, subscription)
            and principal.may(Action.READ, job.selection.destination)
        ]


def _covers(selection: Selection, rule: str, destination: str, subscription: str) -> bool:
    return (
        selection.destination in (None, destination)
        and selection.subscription in (None, subscription)
        and (rule != _DEAD or selection.status in (None, Status.DEAD))
        and not any(getattr(selection, name) for name in _NARROW)
    )


def _cure(job: Job, orders: Orders) -> Cure:
    counts = job.counts
    return Cure(
        id=job.id,
        kind=job.kind,
        state=orders.state(job),
        by=job.by,
        ended=counts.selected - counts.waiting,
        total=None if job.state == "selecting" else counts.selected,
    )
