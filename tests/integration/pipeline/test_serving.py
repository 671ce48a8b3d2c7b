"""A pipeline that stays beside a real bus: it rolls up, proves when somebody wants it, and tells what it found."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bus.clock import SystemClock
from bus.domain.pipelines import Run, Verdict
from bus.settings import PipelineSettings, Settings
from pipeline.commands.telling import ReportTarget
from pipeline.lake.batches import READ_LINE, batches_of
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.metrics import StreamMetrics
from pipeline.options import SessionOptions
from pipeline.schemas import EVENTS
from pipeline.serving import status_reporter
from pipeline.serving.listeners import Listeners
from pipeline.serving.plan import ServingPlan, plan_of
from pipeline.serving.service import Service
from tests.harness.accounts import delivered_messages, ends_of, without
from tests.harness.archived_bus import Place
from tests.harness.trace_lines import told
from tests.harness.waiting import wait_until

WITHIN = 100.0
MINUTE = 60_000
NOT_YET = (Verdict.UNHEARD, Verdict.NOTHING)


@pytest.fixture(autouse=True)
def _talkative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_reporter, "_TELL_S", 0.1)


class Serving:
    """A service at work in a thread, and what it told whom it tells."""

    def __init__(self, spark: SparkSession, plan: ServingPlan) -> None:
        self.runs: list[Run] = []
        self.trouble: list[str] = []
        self.asked = threading.Event()
        self.failure: list[BaseException] = []
        listeners = Listeners(lambda _: None, self.runs.append, self.trouble.append)
        self.service = Service(spark.newSession(), plan, SystemClock(), StreamMetrics(), listeners)
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.service.run(self.asked)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.failure.append(error)

    @contextmanager
    def at_work(self) -> Iterator[Serving]:
        self._thread.start()
        try:
            yield self
        finally:
            self.asked.set()
            self._thread.join(WITHIN)
        assert not self._thread.is_alive()
        assert self.failure == []


def data_of(place: Place) -> Path:
    """Return the directory of a bus."""
    return Path(place.store.removeprefix("sqlite:///")).parent


def plan_for(place: Place, **table: Any) -> ServingPlan:
    """Return the plan of a bus, whose clock runs nothing by itself unless told so."""
    never = dict.fromkeys(("reconcile", "judge", "compact", "baseline", "archive"), "")
    settings = Settings(data=data_of(place), pipeline=PipelineSettings(**{**never, **table}))
    return plan_of(settings, ReportTarget(place.bus.url, ""), SessionOptions())


def shown(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = place.bus.admin.call("GET", "/api/v1/pipeline").json()
    return found


def _error_shown(place: Place) -> str:
    return ((shown(place)["pipeline"] or {}).get("stream") or {}).get("error", "")


def wanted(place: Place, serving: Serving, job: str) -> Run:
    """Have a job run as a person does, and return its run."""
    before = len(serving.runs)
    answer = wait_until(lambda: _accepted(place, job), within=WITHIN, what="the bus to have heard of the pipeline")
    assert job in [wish["job"] for wish in answer["wishes"]]
    wait_until(lambda: len(serving.runs) > before, within=WITHIN, what=f"{job} to run", state=lambda: serving.trouble)
    return serving.runs[-1]


def judged(place: Place, serving: Serving) -> Run:
    """Have proofs made until one can judge: once the stream has seen that there is no more to read."""
    return wait_until(
        lambda: (run := wanted(place, serving, "reconcile")).verdict not in NOT_YET and run,
        within=WITHIN,
        what="a proof that judges",
        state=lambda: serving.runs,
    )


def _accepted(place: Place, job: str) -> dict[str, Any] | None:
    answer = place.bus.admin.call("POST", "/api/v1/pipeline/runs", json={"job": job})
    assert answer.status_code in (202, 409), answer.text
    return answer.json() if answer.status_code == 202 else None


def test_what_it_reads_and_runs_is_told_to_the_bus(spark: SparkSession, embedded: Place) -> None:
    events = delivered_messages(int(time.time() * 1000), 5, 10)
    serving = Serving(spark, plan_for(embedded, every=0.5))
    (data_of(embedded) / "events" / "planted.jsonl").write_text(told(events, at=int(time.time() * 1000)))
    with serving.at_work():
        for job in ("compact", "judge"):
            assert wanted(embedded, serving, job).verdict in ("done", "nothing")
        wait_until(
            lambda: ((shown(embedded)["pipeline"] or {}).get("stream") or {}).get("events") == len(events),
            within=WITHIN,
            what="the bus to be told of the events",
            state=lambda: shown(embedded),
        )
    state = shown(embedded)
    assert (state["heard"], state["wishes"]) == (True, [])
    assert {each["verdict"] for each in state["pipeline"]["runs"]} <= {"done", "nothing"}
    assert state["pipeline"]["stream"]["freshness_p95"] > 0
    assert serving.trouble == []


@pytest.mark.proof
def test_it_finds_what_is_missing_and_people_see_it(spark: SparkSession, embedded: Place) -> None:
    start = int(time.time() * 1000) - 30 * MINUTE
    events = delivered_messages(start, 20, 1000)
    gone = ends_of(events)[3:5]
    serving = Serving(spark, plan_for(embedded, every=0.5, reconcile_horizon="10m"))
    planted = data_of(embedded) / "events" / "planted.jsonl"
    planted.write_text(told(without(events, gone), at=start + MINUTE))
    with serving.at_work():
        read = lambda: serving.service.state().stream.events  # noqa: E731
        wait_until(lambda: read() >= len(events) - 2, within=WITHIN, what="the events to be read", state=read)
        wait_until(
            lambda: serving.service._rollup.is_idle(60), within=WITHIN, what="the stream to see that there is no more"
        )
        run = wanted(embedded, serving, "reconcile")
        assert (run.verdict, run.figures["missing"], run.by, run.error) == (Verdict.MISSING, 2, "anyone", "")
        ended = {job: wanted(embedded, serving, job).verdict for job in ("judge", "compact", "baseline", "archive")}
    assert ended == {"judge": "nothing", "compact": "done", "baseline": "nothing", "archive": "nothing"}
    assert serving.trouble == []
    state = shown(embedded)
    assert state["heard"]
    assert state["wishes"] == []
    assert state["pipeline"]["runs"][0]["job"] == "archive"  # told once more at the end
    assert state["pipeline"]["stream"]["committed_at"]
    report = embedded.bus.admin.call("GET", "/api/v1/pipeline/proof").json()["proof"]
    missing = {(each["id"], each["subscription"]) for each in report["found"] if each["finding"] == "missing"}
    assert (missing, report["missing"], report["run"]) == (set(gone), 2, run.number)
    assert sum(bar["missing"] for bar in report["bars"]) == 2
    told_of = embedded.bus.admin.call("GET", "/api/v1/findings").json()["proof"]
    assert told_of["missing"] == 2


@pytest.mark.proof
def test_a_bus_at_rest_is_proven(spark: SparkSession, embedded: Place) -> None:
    admin = embedded.bus.admin
    admin.destination("orders")
    admin.subscription("orders", "shop", embedded.subscriber.url("/shop"))
    ids = [admin.send("orders", b"{}").json()["id"] for _ in range(20)]
    admin.wait_drained("orders", ids, within=WITHIN)
    serving = Serving(spark, plan_for(embedded, every=0.5, reconcile_allowance="1s"))
    with serving.at_work():
        proven = judged(embedded, serving)
    assert (proven.verdict, proven.figures["expected"], proven.figures["missing"]) == (Verdict.PROVEN, 20, 0)
    assert serving.trouble == []


@pytest.mark.proof
def test_a_stream_that_stopped_goes_on_once_its_cause_is_gone(spark: SparkSession, embedded: Place) -> None:
    folder = data_of(embedded) / "events"
    plan = plan_for(embedded, every=0.5)
    serving = Serving(spark, plan)
    events = delivered_messages(int(time.time() * 1000) - 30 * MINUTE, 20, 1000)
    with serving.at_work():
        wait_until((data_of(embedded) / "lake" / "_checkpoints").exists, within=WITHIN, what="the stream to begin")
        blocked = data_of(embedded) / "lake" / "events"
        blocked.write_text("in the way")  # where the table's folder should be
        folder.joinpath("planted.jsonl").write_text(told(events, at=int(time.time() * 1000)))
        wait_until(lambda: serving.service.state().stream.error, within=WITHIN, what="the stream to stop")
        assert serving.service.state().stream.hint
        wait_until(lambda: _error_shown(embedded), within=WITHIN, what="people to see it")
        blocked.unlink()
        wait_until(
            lambda: serving.service.state().stream.events >= len(events), within=WITHIN, what="the stream to go on"
        )
        assert serving.service.state().stream.error == ""
    lake = Lake(Storage(plan.lake))
    read = lake.manifests(READ_LINE)
    assert sum(each.rows(EVENTS.name) for each in read) == len(events)
    assert len({number for each in read for number in batches_of(each.name)}) == len(read)
