"""Output, exit code and reports of ``judge``; a run that must be in vain starts no Spark."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from bus.cli import run
from bus.domain.health.findings import MOST_TOLD, Deviation, Metric
from bus.domain.times import HOUR
from pipeline.commands import judging
from pipeline.jobs import baseline
from pipeline.jobs.judge import Judgement
from pipeline.lake.batches import ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import ROLLUPS, THRESHOLDS
from tests.harness.fake_bus import FakeBus
from tests.harness.made_lake import put
from tests.harness.process import free_port

UNTIL = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
PATH = "/api/v1/findings/norms"
OUT = [
    Deviation(destination="orders", subscription="", metric=Metric.VOLUME, since=0, value=12.0, norm=99.6, low=70.2),
    Deviation(
        destination="orders", subscription="shop", metric=Metric.FAILURE, since=HOUR, value=0.5, norm=0.0, high=0.02
    ),
    Deviation(
        destination="orders", subscription="shop", metric=Metric.LATENCY, since=HOUR, value=900.4, norm=99.0, high=400.0
    ),
]


def lake_of(root: Path, newest: dt.datetime | None, *, normed: bool = True) -> str:
    made = Lake(Storage(str(root / "lake")))
    put(made, ROLLUP_LINE, {ROLLUPS: [{"minute": newest}]})
    if normed:
        put(made, baseline.LINE, {THRESHOLDS: [{}]})
    return made.storage.root


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return lake_of(tmp_path, UNTIL)


def judge(monkeypatch: pytest.MonkeyPatch, lake: str, out: list[Deviation], *options: str, why: str = "") -> int:
    """Run the command over what Spark would come to."""
    monkeypatch.setattr(judging, "judge", lambda _spark, _lake, until: Judgement(until, 7, out, why))
    return run(["pipeline", "judge", "--lake", lake, *options])


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("how", [(), ("--json",)])
def test_the_exit_code_says_whether_something_is_out(
    how: tuple[str, ...], lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(monkeypatch, lake, [], *how) == 0
    assert f"none of 7 metrics is outside of the norms in the three hours before {UNTIL:%Y-%m-%dT%H}" in (
        capsys.readouterr().out
    )
    assert judge(monkeypatch, lake, OUT, *how) == 1
    assert "3 of 7 metrics are outside" in capsys.readouterr().out
    assert judge(monkeypatch, lake, [], *how, why="all is new") == 3
    assert "nothing can be judged: all is new" in capsys.readouterr().out


@pytest.mark.usefixtures("without_spark")
def test_what_is_out_are_lines_where_no_terminal_is(
    lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge(monkeypatch, lake, OUT)
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert lines[:-1] == [
        ["destination", "subscription", "metric", "value", "norm", "low", "high", "hour"],
        ["orders", "", "volume", "12", "100", "70", "-", "1970-01-01T00:00:00.000Z"],
        ["orders", "shop", "failure", "50.0%", "0.0%", "-", "2.0%", "1970-01-01T01:00:00.000Z"],
        ["orders", "shop", "latency", "900 ms", "99 ms", "-", "400 ms", "1970-01-01T01:00:00.000Z"],
    ]


@pytest.mark.parametrize(
    ("hours", "normed", "words"),
    [
        (3, True, "the last whole hour of rollups ended at"),
        (0, False, "the lake has no norms yet: bus pipeline baseline"),
        (None, True, "there is no whole hour of rollups yet"),
    ],
)
def test_what_cannot_be_judged_is_said_without_spark_and_not_told(
    hours: int | None, normed: bool, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = UNTIL - dt.timedelta(hours=hours, minutes=59) if hours is not None else None
    lake = lake_of(tmp_path, newest, normed=normed)
    with FakeBus() as bus:
        assert run(["pipeline", "judge", "--lake", lake, "--tell", "--url", bus.url]) == 3
        assert bus.asked == []
    told = capsys.readouterr().out
    assert f"nothing can be judged: {words}" in told
    assert "the bus was told nothing" in told


@pytest.mark.usefixtures("without_spark")
def test_the_hour_of_now_is_not_judged_whatever_is_dated_ahead(tmp_path: Path, monkeypatch, capsys) -> None:
    lake = lake_of(tmp_path, UNTIL + dt.timedelta(minutes=70))
    assert judge(monkeypatch, lake, [], "--json") == 0
    until = dt.datetime.fromisoformat(json.loads(capsys.readouterr().out)["until"])
    assert until <= dt.datetime.now(dt.UTC)


@pytest.mark.usefixtures("without_spark")
def test_the_bus_is_told_what_is_out_and_that_nothing_is(
    lake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeBus() as bus:
        bus.on("PUT", PATH, {})
        options = ("--tell", "--url", bus.url, "--api-key", "k")
        assert judge(monkeypatch, lake, OUT, *options) == 1
        assert capsys.readouterr().out.endswith("the bus was told\n")
        assert judge(monkeypatch, lake, [], *options, "--json") == 0
        assert json.loads(capsys.readouterr().out)["told"] is True
        many = OUT[:1] * (MOST_TOLD + 3)
        assert judge(monkeypatch, lake, many, *options) == 1
    first, second, third = bus.asked
    assert first.headers["authorization"] == "Bearer k"
    assert (first.body["until"], first.body["count"]) == (UNTIL.isoformat(), 3)
    assert first.body["items"][1] == {
        "destination": "orders",
        "subscription": "shop",
        "metric": "failure",
        "since": "1970-01-01T01:00:00.000Z",
        "value": 0.5,
        "norm": 0.0,
        "low": None,
        "high": 0.02,
    }
    assert (second.body["count"], second.body["items"]) == (0, [])
    assert (third.body["count"], len(third.body["items"])) == (MOST_TOLD + 3, MOST_TOLD)


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("how", [(), ("--json",)])
@pytest.mark.parametrize("out", [[], OUT])
def test_a_bus_that_could_not_be_told_is_an_error_behind_what_was_found(
    out: list[Deviation],
    how: tuple[str, ...],
    lake: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert judge(monkeypatch, lake, out, "--tell", "--url", url, *how) == 1
    told = capsys.readouterr()
    assert "of 7 metrics" in told.out
    assert "the report did not reach the bus, which keeps the one before: cannot reach" in told.err
    assert "what was found is printed" in told.err
    if how:
        assert json.loads(told.out)["told"]["error"] in told.err
