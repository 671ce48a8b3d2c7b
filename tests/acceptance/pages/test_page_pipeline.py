"""The page of a pipeline that stays: how it is, what its jobs found, and a run that somebody wants."""

from __future__ import annotations

import time
from typing import Any

import pytest
from playwright.sync_api import expect

from bus.domain.pipelines import Job, Verdict
from bus.domain.times import format_time
from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House
from tests.acceptance.pages.sending import WITHIN, send
from tests.harness.bus_process import BusProcess
from tests.harness.waiting import wait_until

PATH = "/api/v1/pipeline"
NOW = format_time(int(time.time() * 1000))


def state(*runs: dict[str, Any], **stream: Any) -> dict[str, Any]:
    jobs = [{"job": job, "cron": "*/15 * * * *" if job != "archive" else "", "next_at": NOW} for job in Job]
    shown = {"batches": 7, "events": 4321, "committed_at": NOW, "freshness_p50": 3.1, "freshness_p95": 6.4, **stream}
    return {
        "started_at": NOW,
        "lake": "/mnt/lake",
        "timezone": "UTC",
        "stream": shown,
        "jobs": jobs,
        "runs": list(runs),
    }


def run(number: int, verdict: str, job: str = "reconcile", **more: Any) -> dict[str, Any]:
    ended = {} if verdict in ("running", "broken") else {"ended_at": NOW}
    return {"number": number, "job": job, "began_at": NOW, "verdict": verdict, **ended, **more}


def proof(message_id: str, verdict: str = "missing") -> dict[str, Any]:
    found = {"destination": "orders", "subscription": "shop", "state": "final"}
    hops = {"states": {"final": 2, "open": 1}, "verdicts": {"proven": 1, "missing": 1}}
    return {
        "run": 3,
        "verdict": verdict,
        "checked": NOW,
        "watermark": NOW,
        "with_store": True,
        "emitters": 2,
        "missing": 600,
        "contradicted": 1,
        "on_their_way": 4,
        "lost_blocks": 2,
        "hops": [{"hop": hop, "buckets": 3, "expected": 1000, **hops} for hop in ("accept", "publish", "deliver")],
        "found": [
            {**found, "id": message_id, "finding": "missing", "last_event": "published kafka", "stored": "pending"},
            {**found, "id": "lost-2", "subscription": "", "hop": "accept", "finding": "missing"},
            {**found, "id": "lost-4", "subscription": "", "hop": "publish", "finding": "missing"},
            {**found, "id": "late-3", "finding": "store_behind", "last_event": "settled delivered"},
        ],
        "gaps": [
            {"emitter": "e-1", "node": "host:8700", "until": NOW, "blocks": 2, "events": 0},
            {"emitter": "e-2", "node": "host:8701", "after": NOW, "blocks": 0, "events": 0},
        ],
        "bars": [{"start": NOW, "states": {"final": 2, "open": 1}, "missing": 1}],
    }


def tell(bus: BusProcess, document: dict[str, Any], path: str = PATH) -> dict[str, Any]:
    answer = bus.admin.call("PUT", path, json=document)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else {}


def test_every_state_of_it_is_shown_and_a_run_is_wanted(look: Look, open_bus: BusProcess) -> None:
    looker = look()
    page = looker.open("/pipeline")
    expect(page.get_by_text("No pipeline tells of itself")).to_be_visible()
    page = looker.open("/pipeline/proof")
    expect(page.get_by_text("There is no proof yet")).to_be_visible()
    open_bus.admin.destination("proved")
    message_id = send(open_bus, "proved", {})

    runs = [run(number, verdict) for number, verdict in enumerate(Verdict, start=1)]
    failed = run(90, "failed", "compact", error="1 hour was left as it is", hint="free some disk")
    tell(open_bus, state(failed, *reversed(runs)))
    tell(open_bus, proof(message_id), f"{PATH}/proof")
    page = looker.open("/pipeline")
    table = page.get_by_role("region", name="Runs")
    for text in ("proven", "deliveries are missing", "at work", "broken off", "outside of the norms", "failed"):
        expect(table.get_by_text(text).first).to_be_visible()
    expect(table.get_by_text("1 hour was left as it is · free some disk")).to_be_visible()
    expect(page.get_by_text("6.4 s")).to_be_visible()
    assert not looker.findings()
    assert not looker.is_too_wide()

    page.get_by_role("button", name="Run now: Prove that nothing is lost").click()
    expect(page.get_by_text("It runs within seconds")).to_be_visible()
    (wish,) = tell(open_bus, state())["wishes"]
    assert (wish["job"], wish["by"]) == ("reconcile", "anyone")
    jobs = page.get_by_role("region", name="Jobs")
    expect(jobs.get_by_text("waits for its turn")).to_be_visible()
    tell(open_bus, state(run(91, "running", wish=wish["id"], by="anyone")))
    expect(page.get_by_role("button", name="Run now: Prove that nothing is lost")).to_be_visible()

    tell(open_bus, state(error="the disk is full", hint="free some"))
    expect(page.get_by_role("alert").get_by_text("the disk is full")).to_be_visible()
    page.get_by_role("link", name="See what it rests on").click()
    expect(page.get_by_role("heading", name="Last proof")).to_be_visible()
    expect(page.get_by_text("597 more are in the table findings of the lake.")).to_be_visible()
    expect(page.get_by_text("no receiver accepted it")).to_be_visible()
    expect(page.get_by_text("none; the store lost the message")).to_be_visible()
    expect(page.get_by_text("did not end in order")).to_be_visible()
    expect(page.get_by_text("the store is behind")).to_be_visible()
    assert not looker.findings()
    page.get_by_role("link", name=message_id).click()
    expect(page).to_have_url(f"{open_bus.url}/admin/messages/{message_id}")


@pytest.mark.parametrize("verdict", ["proven", "explained", "unsettled", "missing", "contradicted", "unheard"])
def test_it_is_chinese_and_fits_a_narrow_window(look: Look, open_bus: BusProcess, verdict: str) -> None:
    runs = [run(number, each, figures={"expected": 5, "missing": 0}) for number, each in enumerate(Verdict, start=1)]
    tell(open_bus, state(*runs))
    tell(open_bus, proof("m-1", verdict), f"{PATH}/proof")
    looker = look(width=390, language="zh", dark=verdict == "missing")
    page = looker.open("/pipeline")
    expect(page.get_by_role("heading", name="流水线", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="运行记录").get_by_text("已中断")).to_be_visible()
    assert not looker.is_too_wide()
    assert not looker.findings()
    page = looker.open("/pipeline/proof")
    expect(page.get_by_role("region", name="发现的内容")).to_be_visible()
    assert not looker.is_too_wide()
    assert not looker.findings()


def test_who_may_only_read_is_offered_no_run(look: Look, house: House) -> None:
    tell(house.bus, state(run(1, "proven")))
    looker = look(house.bus)
    page = looker.log_in("proof-reader", house.invite("proof-reader", "viewer"), "/pipeline")
    expect(page.get_by_role("region", name="Runs").get_by_text("proven")).to_be_visible()
    assert page.get_by_text("Run now").count() == 0


@pytest.mark.proof
def test_one_that_is_silent_is_said_to_be(look: Look, open_bus: BusProcess) -> None:
    tell(open_bus, state(run(1, "proven")))
    page = look().open("/pipeline")
    expect(page.get_by_text("Nothing was heard of the pipeline since")).to_have_count(0)
    wait_until(
        lambda: not open_bus.admin.call("GET", PATH).json()["heard"], within=WITHIN, what="it to be silent", every=0.5
    )
    expect(page.get_by_text("Nothing was heard of the pipeline since")).to_be_visible()
