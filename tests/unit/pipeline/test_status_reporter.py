"""Status reports of a running pipeline, and the runs that it takes over: also without the bus or the lake."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from bus.domain.pipelines import Job, Pipeline, RunRequest, ScheduledJob
from pipeline.commands.telling import ReportTarget
from pipeline.serving.listeners import Listeners
from pipeline.serving.metrics import RunMetrics
from pipeline.serving.status_reporter import PATH, StatusReporter
from tests.harness.fake_bus import FakeBus
from tests.harness.process import free_port

STATE = Pipeline(
    started_at="2026-11-27T12:00:00Z", lake="/lake", jobs=(ScheduledJob(job=Job.JUDGE, cron="20 * * * *"),)
)
WISH = {"id": "w-1", "job": "judge", "by": "ann", "at": "2026-11-27T12:00:01Z"}
NOTHING = {"wishes": []}
TOLD = "bus_pipeline_told_timestamp_seconds"


class Told:
    """A teller that goes on until so many calls are through, and what it does."""

    def __init__(self, url: str, *, fails: int = 0) -> None:
        self.taken: list[RunRequest] = []
        self.trouble: list[str] = []
        self.registry = CollectorRegistry()
        self._fails = fails
        listeners = Listeners(lambda _: None, lambda _: None, self.trouble.append)
        metrics = RunMetrics(self.registry)
        self._teller = StatusReporter(ReportTarget(url, "key"), lambda: STATE, self._take, metrics, listeners)

    def _take(self, wish: RunRequest) -> None:
        if self._fails:
            self._fails -= 1
            raise OSError(28, "No space left on device")
        self.taken.append(wish)

    def until(self, calls: int) -> Told:
        """Have it tell so often."""
        left = iter([False] * (calls - 1) + [True])

        class Ending(threading.Event):
            def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002
                return next(left)

        self._teller.run(Ending())
        return self


@pytest.fixture
def bus() -> Iterator[FakeBus]:
    with FakeBus() as fake:
        yield fake


def test_it_tells_how_it_is_and_takes_what_people_want(bus: FakeBus) -> None:
    bus.on("PUT", PATH, {"wishes": [WISH]}, NOTHING)
    told = Told(bus.url).until(2)
    assert [asked.body["jobs"][0]["cron"] for asked in bus.asked] == ["20 * * * *"] * 2
    assert bus.asked[0].headers["authorization"] == "Bearer key"
    assert told.taken == [RunRequest(id="w-1", job=Job.JUDGE, by="ann", at="2026-11-27T12:00:01Z")]
    assert told.trouble == []
    assert told.registry.get_sample_value(TOLD)


def test_a_bus_that_is_away_is_told_of_once_and_told_again_when_it_is_back(bus: FakeBus) -> None:
    refusal = 503, {"title": "Away", "status": 503, "detail": "the store is away"}
    bus.on("PUT", PATH, refusal, refusal, refusal, {"wishes": [WISH]}, refusal)
    told = Told(bus.url).until(5)
    assert len(told.taken) == 1
    assert [text.partition(":")[0] for text in told.trouble] == ["the bus was not told how this is"] * 2
    assert "the store is away" in told.trouble[0]


def test_nobody_there_is_no_end() -> None:
    told = Told(f"http://127.0.0.1:{free_port()}").until(3)
    assert len(told.trouble) == 1
    assert "bus up" in told.trouble[0]
    assert told.registry.get_sample_value(TOLD) == 0


def test_something_else_than_a_bus_is_no_end(bus: FakeBus) -> None:
    bus.on("PUT", PATH, {"ok": True}, {"wishes": [{**WISH, "job": "sweep"}]}, ["x"])
    told = Told(bus.url).until(3)
    assert len(told.trouble) == 3
    assert all("does not answer as a bus does" in text for text in told.trouble)


def test_a_wish_that_the_lake_could_not_keep_is_taken_at_the_next_call(bus: FakeBus) -> None:
    bus.on("PUT", PATH, {"wishes": [WISH]})
    told = Told(bus.url, fails=1).until(2)
    assert len(told.taken) == 1
    assert "the lake cannot be written" in told.trouble[0]
