"""``reconcile --repair``: bulk resends of the bus deliver what is missing, and are watched until they end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from heapq import merge
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
_DESTINATIONS: Final = "/api/v1/destinations"


class RepairOptions(NamedTuple):
    """The bus that repairs, the rate (messages a second), and the seconds to wait for its outcomes.

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
    a subscription that the store lost. ``unbegun`` are deliveries of strictly ordered destinations that the bus was not
    given, since those before them had not ended when the wait was over.
    """

    jobs: list[str]
    counts: dict[str, int]
    unaccepted: int
    unkept: int = 0
    unbegun: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all that was missing is delivered."""
        good = sum(self.counts.get(name, 0) for name in _GOOD)
        left = self.unaccepted + self.unkept + self.unbegun
        return not left and good == self.counts.get("selected", 0)

    @property
    def sentence(self) -> str:
        """The balance in words."""
        parts = [f"{count} {name}" for name, count in self.counts.items() if count and name != "selected"]
        more = f"; {self.unaccepted} messages are only with their producers: bus spool drain" if self.unaccepted else ""
        if self.unkept:
            more += (
                f"; {self.unkept} messages without a subscription cannot be repaired: their producers send them again"
            )
        if self.unbegun:
            more += f"; {self.unbegun} of a strict order wait for those before them: reconcile again later"
        return f"repair of {self.counts.get('selected', 0)}: {', '.join(parts) or 'nothing'}{more}"


def repair(summary: Summary, repairing: RepairOptions, jobs: list[str]) -> RepairBalance:
    """Hand over what is missing, and wait for the outcomes.

    The ids of jobs are added to ``jobs`` once the bus has accepted them: these continue even if this is interrupted. Of
    a strictly ordered destination the next job begins once the one before has ended. Of what is ``held`` in a strict
    order the bus resends what is lost with a group of brokers, and skips the rest; of destinations that lost nothing it
    is not asked.

    Raises
    ------
    ReceiverRefused
        The key may not resend.
    ReceiverUnavailable
        The bus does not answer.
    """
    with Api(repairing.url, repairing.api_key) as api, progress() as bar:
        strict = _strict_orders(api, summary) if repairing.reorder else set[str]()
        others = (each for each in summary.missing if each.destination not in strict)
        task = bar.add_task("repairing", total=len(summary.missing) - summary.unaccepted - summary.unkept)
        jobs.extend(_submit(api, part, repairing) for part in _parts(others))
        in_turn = _JobsInTurn(api, repairing, {code: _parts(_in_order(api, summary, code)) for code in sorted(strict)})
        found: dict[str, dict[str, Any]] = {}
        waiting, end = [*jobs], time.monotonic() + repairing.wait
        while True:
            for job in in_turn.begin(frozenset(waiting)):
                jobs.append(job)
                waiting.append(job)
            found |= {job: api.call("GET", f"/api/v1/resends/{job}") for job in waiting}
            waiting = [job for job in waiting if found[job]["state"] not in _ENDED]
            counts = _sum(found.values())
            bar.update(task, completed=counts["selected"] - counts["waiting"])
            if not (waiting or in_turn.has_more) or time.monotonic() >= end:
                return RepairBalance(jobs, dict(counts), summary.unaccepted, summary.unkept, in_turn.count())
            time.sleep(_POLL)


class _JobsInTurn:
    """The jobs of strictly ordered destinations: of each one at a time, so that they keep the order."""

    def __init__(self, api: Api, repairing: RepairOptions, parts: dict[str, Iterator[list[Finding]]]) -> None:
        self._api = api
        self._repairing = repairing
        self._parts = parts
        self._latest: dict[str, str] = {}

    @property
    def has_more(self) -> bool:
        """Whether there may be deliveries that the bus was not given."""
        return bool(self._parts)

    def begin(self, waiting: Collection[str]) -> Iterator[str]:
        """Begin the next job of each destination whose latest one does not wait any more, and yield its id."""
        for code in [code for code in self._parts if self._latest.get(code) not in waiting]:
            part = next(self._parts[code], None)
            if part is None:
                del self._parts[code]
            else:
                self._latest[code] = _submit(self._api, part, self._repairing)
                yield self._latest[code]

    def count(self) -> int:
        """Count the deliveries that the bus was not given, which nothing begins after that."""
        return sum(len(part) for part in chain.from_iterable(self._parts.values()))


def _strict_orders(api: Api, summary: Summary) -> set[str]:
    """Return the strictly ordered destinations of which something is missing or held."""
    strict = {each["code"] for each in api.call("GET", _DESTINATIONS)["items"] if each["ordering"] == "strict"}
    return strict & {each.destination for each in chain(summary.missing, summary.held)}


def _in_order(api: Api, summary: Summary, code: str) -> Iterator[Finding]:
    """Yield what a strictly ordered destination has missing, and held if it lost something, by subscription and id."""
    held = summary.held if _has_lost(api, code) else ()
    found = ((each for each in findings if each.destination == code) for findings in (summary.missing, held))
    return merge(*found, key=lambda each: (each.subscription, each.id))


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
