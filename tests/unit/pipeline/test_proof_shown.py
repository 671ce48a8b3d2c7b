"""A proof as the bus shows it: whatever was found, the bus takes it, and all sums are those of the proof."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest

from admin.models.pipeline import ProofReportBody
from admin.requests.bodies import LARGEST
from bus.domain.pipelines import MOST_BARS, MOST_FOUND, MOST_GAPS
from pipeline.jobs.reconcile import Plan
from pipeline.reports.summary import HOPS, STATES, VERDICTS, Bar, Finding, Gap, Summary
from pipeline.serving.reports import report_of

AT = "2026-11-27T12:00:00.000Z"
PLAN = Plan(dt.datetime(2026, 11, 27, 12, tzinfo=dt.UTC), since=dt.datetime(2026, 11, 26, 11, tzinfo=dt.UTC))
LONG = "原因" * 3000


def finding(number: int, subscription: str = "s" * 64, **fields: Any) -> Finding:
    told = {"last_stage": "settled", "last_status": "dead", "last_reason": LONG, "last_at": AT}
    kept = {"store_status": "pending", "store_reason": LONG}
    return Finding(f"{number:036}", "d" * 64, subscription, "deliver", AT, "provisional", **{**told, **kept, **fields})


def summary(missing: list[Finding], contradicted: list[Finding], *, bars: int = 1000, gaps: int = 500) -> Summary:
    counts = {"buckets": 2**40, "expected": 2**40, "under_way": 3, "held": 4, "missing": 2}
    hop = {"states": dict.fromkeys(STATES, 2**40), "verdicts": dict.fromkeys(VERDICTS, 2**40), **counts}
    shown = [Bar(AT, dict.fromkeys(STATES, 2**40), 2**40)] * bars
    lost = [Gap("e" * 300, "receiver", "节" * 512, None, AT, 2**40, 2**40)] * gaps
    return Summary("missing", AT, AT, True, 3, 0, dict.fromkeys(HOPS, hop), lost, 9, 8, missing, contradicted, shown)


@pytest.mark.parametrize("count", [0, 1, MOST_FOUND, MOST_FOUND + 1, 3000])
def test_the_bus_takes_whatever_was_found(count: int) -> None:
    found = [finding(number) for number in range(count)]
    report = report_of(summary(found, found), PLAN, 7)
    content = msgspec.json.encode(report)
    assert len(content) < LARGEST
    taken = ProofReportBody.model_validate_json(content).to_domain()
    assert taken == report
    assert (taken.missing, taken.contradicted, taken.on_their_way, taken.unaccepted) == (count, count, 7, 2)
    assert (len(taken.found), len(taken.bars), len(taken.gaps)) == (2 * min(count, MOST_FOUND), MOST_BARS, MOST_GAPS)
    assert (taken.since, taken.before) == ("2026-11-26T11:00:00.000Z", None)


def test_what_nobody_knows_of_is_no_word() -> None:
    unknown = finding(1, last_stage=None, last_status=None, store_status=None, subscription="")
    (found,) = report_of(summary([unknown], []), PLAN, 1).found
    assert (found.last_event, found.stored) == ("", "")
