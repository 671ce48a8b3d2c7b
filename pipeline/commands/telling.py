"""``--tell``: what a job found is put into the bus, whose rules of alarms judge it from then on."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from bus.cli.api import Api
from bus.domain.health.findings import MOST_TOLD, Deviation
from bus.domain.times import format_time
from bus.errors import BusError
from pipeline.errors import JobFailed
from pipeline.reports.summary import Findings

_NORMS: Final = "/api/v1/findings/norms"
_PROOF: Final = "/api/v1/findings/proof"
_Lane = tuple[str, str]


class ReportTarget(NamedTuple):
    """The bus that receives reports."""

    url: str
    api_key: str


def tell_norms(telling: ReportTarget, until: dt.datetime, deviations: Sequence[Deviation]) -> None:
    """Report what is outside of its norms, or that nothing is.

    Raises
    ------
    JobFailed
        The bus refused it, or does not answer; the previous report stays in force.
    """
    items = [item_of(one) for one in deviations[:MOST_TOLD]]
    put(telling, _NORMS, {"until": until.isoformat(), "count": len(deviations), "items": items})


def item_of(one: Deviation) -> dict[str, Any]:
    """Return a deviation as it is written, for the bus and for people's programs."""
    return {**msgspec.structs.asdict(one), "since": format_time(one.since)}


class ProofSummary(NamedTuple):
    """The result of a proof: its time, its range of messages, its witnesses, and the unaccounted deliveries."""

    checked: str
    since: dt.datetime | None
    before: dt.datetime | None
    with_store: bool
    missing: Findings
    contradicted: Findings


def tell_proof(telling: ReportTarget, proven: ProofSummary) -> None:
    """Report how many deliveries of each subscription are missing or contradicted; raises ``JobFailed``."""
    lost: Counter[_Lane] = Counter()
    against: Counter[_Lane] = Counter()
    minutes: dict[_Lane, tuple[str, str]] = {}
    for counts, found in ((lost, proven.missing), (against, proven.contradicted)):
        for one in found:
            lane = one.destination, one.subscription
            counts[lane] += 1
            first, last = minutes.get(lane, (one.minute, one.minute))
            minutes[lane] = min(first, one.minute), max(last, one.minute)
    worst = sorted(minutes, key=lambda lane: (-lost[lane], -against[lane], lane))[:MOST_TOLD]
    told = {
        "checked": proven.checked,
        "since": _text(proven.since),
        "before": _text(proven.before),
        "with_store": proven.with_store,
        "missing": len(proven.missing),
        "contradicted": len(proven.contradicted),
        "items": [
            {
                "destination": lane[0],
                "subscription": lane[1],
                "missing": lost[lane],
                "contradicted": against[lane],
                "since": minutes[lane][0],
                "until": minutes[lane][1],
            }
            for lane in worst
        ],
    }
    put(telling, _PROOF, told)


def _text(time: dt.datetime | None) -> str | None:
    return time.isoformat() if time is not None else None


def put(telling: ReportTarget, path: str, body: object) -> None:
    """Send the bus a result; raises ``JobFailed``."""
    try:
        with Api(telling.url, telling.api_key) as api:
            api.call("PUT", path, body=body)
    except BusError as error:
        again = "what was found is printed; the same command tells it once that is mended"
        raise JobFailed(
            f"the report did not reach the bus, which keeps the one before: {error}",
            hint=f"{error.hint}; {again}" if error.hint else again,
        ) from error
