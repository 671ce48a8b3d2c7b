"""``reconcile --repair``: bulk resends of the bus deliver what is missing, and are watched until they end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, groupby, islice
from typing import Any, Final, NamedTuple

import msgspec

from bus.cli.api import Api, destination_path
from bus.cli.output import progress
from pipeline.reports.summary import Finding, Summary

_AT_ONCE: Final = 1_000
_POLL: Final = 0.2
_ENDED: Final = ("done", "canceled")
_GOOD: Final = ("delivered", "skipped")


class RepairOptions(NamedTuple):
    """Which bus repairs, at which rate (messages a second), and how many seconds its outcomes are waited for.

    ``reorder`` is whether it may be out of a strict order.
    """

    url: str
    api_key: str
    rate: float | None
    wait: float
    reorder: bool = False


class RepairBalance(msgspec.Struct, frozen=True):
    """The balance of a repair: ``selected`` is the sum of its jobs' items by outcome, waiting ones included.

    ``unaccepted`` are messages that no receiver accepted: only their producer has them. ``unkept`` are those without
    a subscription that the store lost.
    """

    jobs: list[str]
    counts: dict[str, int]
    unaccepted: int
    unkept: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all that was missing is delivered."""
        good = sum(self.counts.get(name, 0) for name in _GOOD)
        return not self.unaccepted and not self.unkept and good == self.counts.get("selected", 0)

    @property
    def sentence(self) -> str:
        """The balance in words."""
        parts = [f"{count} {name}" for name, count in self.counts.items() if count and name != "selected"]
        more = f"; {self.unaccepted} messages are only with their producers: bus spool drain" if self.unaccepted else ""
        if self.unkept:
            more += (
                f"; {self.unkept} messages without a subscription cannot be repaired: their producers send them again"
            )
        return f"repair of {self.counts.get('selected', 0)}: {', '.join(parts) or 'nothing'}{more}"


def repair(summary: Summary, repairing: RepairOptions, jobs: list[str]) -> RepairBalance:
    """Hand over what is missing, and wait for the outcomes.

    The ids of jobs are added to ``jobs`` once the bus has accepted them: these continue even if this is interrupted. Of
    what is ``held`` in a strict order the bus resends what is lost with a group of brokers, and skips the
    rest; of destinations that lost nothing it is not asked.

    Raises
    ------
    ReceiverRefused
        The key may not resend.
    ReceiverUnavailable
        The bus does not answer.
    """
    with Api(repairing.url, repairing.api_key) as api, progress() as bar:
        lost_some = cache(partial(_has_lost, api))
        task = bar.add_task("repairing", total=len(summary.missing) - summary.unaccepted - summary.unkept)
        lost = (each for each in summary.held if repairing.reorder and lost_some(each.destination))
        jobs.extend(_submit(api, part, repairing) for part in _parts(chain(summary.missing, lost)))
        found: dict[str, dict[str, Any]] = {}
        waiting, end = [*jobs], time.monotonic() + repairing.wait
        while True:
            found |= {job: api.call("GET", f"/api/v1/resends/{job}") for job in waiting}
            waiting = [job for job in waiting if found[job]["state"] not in _ENDED]
            counts = _sum(found.values())
            bar.update(task, completed=counts["selected"] - counts["waiting"])
            if not waiting or time.monotonic() >= end:
                return RepairBalance(jobs, dict(counts), summary.unaccepted, summary.unkept)
            time.sleep(_POLL)


def _has_lost(api: Api, code: str) -> bool:
    """Whether a strictly ordered destination lost something with a group of brokers, as far back as its chain goes."""
    found = api.call("GET", f"{destination_path(code)}/ordering")
    return bool(found["gaps"]) or any(segment["lost"] for segment in found["consume"])


def _parts(missing: Iterable[Finding]) -> Iterator[list[Finding]]:
    """Yield the deliveries of each job: of one destination, and only so many at once."""
    lost = (each for each in missing if each.subscription)
    for _, found in groupby(lost, key=lambda each: each.destination):
        while part := list(islice(found, _AT_ONCE)):
            yield part


def _submit(api: Api, part: Sequence[Finding], repairing: RepairOptions) -> str:
    body: dict[str, Any] = {
        "destination": part[0].destination,
        "deliveries": [{"id": each.id, "subscription": each.subscription} for each in part],
        "rate": repairing.rate,
        "reason": "found missing by reconcile",
    }
    if repairing.reorder:
        body["reorder"] = True
    job: str = api.call("POST", "/api/v1/resends/deliveries", body=body)["id"]
    return job


def _sum(jobs: Iterable[dict[str, Any]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for job in jobs:
        counts.update(job["counts"])
    return counts
