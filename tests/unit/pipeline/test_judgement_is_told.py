"""What ``judge`` prints and exits with; what can be seen to be in vain starts no Spark."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest

from bus.cli import run
from bus.domain.health.findings import Deviation, Metric
from bus.domain.times import HOUR
from pipeline.commands import judging
from pipeline.jobs import baseline
from pipeline.jobs.judge import Judgement
from pipeline.lake.batches import ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import ROLLUPS, THRESHOLDS
from tests.harness.made_lake import put

UNTIL = dt.datetime.now(dt.UTC).replace(minute=0, second=0, microsecond=0)
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
def test_what_cannot_be_judged_is_said_without_spark(
    hours: int | None, normed: bool, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = UNTIL - dt.timedelta(hours=hours, minutes=59) if hours is not None else None
    lake = lake_of(tmp_path, newest, normed=normed)
    assert run(["pipeline", "judge", "--lake", lake]) == 3
    assert f"nothing can be judged: {words}" in capsys.readouterr().out


@pytest.mark.usefixtures("without_spark")
def test_the_hour_of_now_is_not_judged_whatever_is_dated_ahead(tmp_path: Path, monkeypatch, capsys) -> None:
    lake = lake_of(tmp_path, UNTIL + dt.timedelta(minutes=70))
    assert judge(monkeypatch, lake, [], "--json") == 0
    until = dt.datetime.fromisoformat(json.loads(capsys.readouterr().out)["until"])
    assert until <= dt.datetime.now(dt.UTC)
