"""Deliveries that fail, grouped from what their traces say of them."""

from __future__ import annotations

from typing import Any, Final

from bus.domain.identity import id_time
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.domain.tracing.failures import FailureCount, Failures
from bus.domain.tracing.signature import FAILING
from bus.ports.clock import Clock
from bus.stores.mongodb.connection import Connection, Form
from bus.stores.mongodb.damaged import DamagedDocuments
from bus.stores.mongodb.forms import DamagedDocument, read_failures
from bus.stores.mongodb.names import Label
from bus.stores.mongodb.partitions import Partitions
from bus.stores.mongodb.planning import lanes_of
from bus.stores.mongodb.search import ABOVE_ALL, id_from

PATIENCE: Final = 1.0
_PAGE: Final = 5_000
_FIELDS: Final = ("destination", "failures")


class FailureIndex:
    """Follows the index of unfinished and failed deliveries, the newest ids first, as far as a second goes."""

    def __init__(self, connection: Connection, partitions: Partitions, damaged: DamagedDocuments, clock: Clock) -> None:
        self._connection = connection
        self._partitions = partitions
        self._damaged = damaged
        self._clock = clock

    async def groups(self, selection: Selection, limit: int) -> Failures:
        """Return the groups of a destination, a subscription and a time."""
        deadline = self._clock.monotonic() + PATIENCE
        since = "" if selection.since is None else id_from(selection.since)
        below = ABOVE_ALL if selection.before is None else id_from(selection.before)
        count = FailureCount()
        wanted = [
            label
            for label in await self._partitions.newest_first()
            if id_from(label.day * DAY) < below and id_from((label.day + 1) * DAY) > since
        ]
        for place, label in enumerate(wanted):
            reached = await self._read(count, label, selection, (since, below), deadline)
            rest = wanted[place + 1 :]
            if reached is not None and not (rest and rest[0].day == label.day):
                return count.largest(limit, id_time(reached) + 1)
            if reached is not None or (rest and self._clock.monotonic() > deadline):
                return count.largest(limit, (rest[0].day + 1) * DAY)
        return count.largest(limit)

    async def _read(
        self, count: FailureCount, label: Label, selection: Selection, between: tuple[str, str], deadline: float
    ) -> str | None:
        """Count the failures of a partition; return the id down to which there was time, None for all."""
        since, below = between
        while True:
            condition = _lanes(selection) | {"_id": {"$lt": below, "$gte": since}}
            forms = await self._connection.find(
                label.traces, condition, fields=_FIELDS, sort=[("_id", -1)], limit=_PAGE
            )
            for form in forms:
                self._count(count, label, selection, form)
            if len(forms) < _PAGE:
                return None
            below = str(forms[-1]["_id"])
            if self._clock.monotonic() > deadline:
                return below

    def _count(self, count: FailureCount, label: Label, selection: Selection, form: Form) -> None:
        try:
            groups = read_failures(form)
        except DamagedDocument as error:
            self._damaged.note(label.traces, form, error)
            return
        for group in groups:
            if selection.subscription in (None, group.subscription):
                count.add(group)


def _lanes(selection: Selection) -> dict[str, Any]:
    """Return the condition that some delivery fails, as narrow as the index allows."""
    destination = {} if selection.destination is None else {"destination": selection.destination}
    if selection.destination is not None and selection.subscription is not None:
        return {"lanes": {"$in": lanes_of(FAILING, selection.destination, selection.subscription)}}
    return destination | {"$or": [{"lanes": {"$regex": f"^{status}:"}} for status in sorted(FAILING)]}
