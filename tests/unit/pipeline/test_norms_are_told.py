"""The end of the history for ``baseline``, and its output."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from bus.cli import run
from pipeline.commands import baselining
from pipeline.commands.baselining import BaselineOptions, BaselineReport
from pipeline.lake.batches import ROLLUP_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.norms.backtest import Fault
from pipeline.reports.totals import Total
from pipeline.schemas import ROLLUPS
from tests.harness.made_lake import put

NORM = {"destination": "orders", "subscription": "", "metric": "volume", "weeks": 5.0, "method": "median"}
TOTALS = [Total(Fault.DROP, 40, 39, 4, 1, 2, 10, 3, ["rare"])]


@pytest.fixture
def lake(tmp_path: Path) -> str:
    return put(Lake(Storage(str(tmp_path / "lake"))), ROLLUP_LINE, {ROLLUPS: [{}]}).storage.root


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch, without_spark: None) -> list[Any]:
    """The spans that norms were asked of; what they come to needs no Spark."""
    asked: list[Any] = []

    def found(_spark: None, _lake: Lake, options: BaselineOptions, span: Any) -> BaselineReport:
        asked.append(span)
        return BaselineReport(span.before, [], [NORM | {"state": "ready"}] * 3, TOTALS if options.backtest else [])

    monkeypatch.setattr(baselining, "_found", found)
    return asked


def baseline(lake: str, *options: str) -> int:
    return run(["pipeline", "baseline", "--lake", lake, *options])


def test_the_end_is_written_as_every_time_is(lake: str, spans: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    for given in ("2026-03-02T11:59:59Z", "2026-03-02T12:30:00+01:00"):
        assert baseline(lake, "--before", given) == 0
        assert spans.pop().before == dt.datetime(2026, 3, 2, 11, tzinfo=dt.UTC)
    assert baseline(lake, "--before", "7d") == 0
    ago = dt.datetime.now(dt.UTC) - spans.pop().before
    assert dt.timedelta(days=7) <= ago <= dt.timedelta(days=7, hours=1, minutes=5)
    capsys.readouterr()
    assert baseline(lake, "--before", "yesterday") == 2
    assert "--before" in capsys.readouterr().err


def test_norms_are_lines_where_no_terminal_is(lake: str, spans: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert baseline(lake, "--before", "2026-03-02T11:00:00Z", "--backtest") == 0
    told = capsys.readouterr()
    lines = [line.split("\t") for line in told.out.splitlines()]
    assert lines[0] == ["destination", "subscription", "metric", "state", "weeks", "method", "clear_hours"]
    assert lines[1] == ["orders", "", "volume", "ready", "5.0", "median", "3"]
    assert lines[3] == ["half of the volume is missing", "97.5% of 40", "1 of 4", "0.86", "3"]
    assert lines[4] == ["too little volume to tell half from chance: rare"]
    assert told.err == ""


def test_norms_are_one_document_as_json(lake: str, spans: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert baseline(lake, "--before", "2026-03-02T11:00:00Z", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["before"] == "2026-03-02T11:00:00+00:00"
    assert [each["clear_hours"] for each in document["series"]] == [3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "has no whole hour of rollups in the 8 weeks before 2026-03-02T11:00Z"),
        (("--before", "2026-03-01T00:00:00Z"), "in the 8 weeks before 2026-03-01T00:00Z"),
        (("--before", "2026-06-01T00:00:00Z", "--weeks", "2"), "in the 2 weeks before 2026-06-01T00:00Z"),
    ],
)
def test_norms_of_no_hour_are_none_and_take_no_place(
    tmp_path: Path, spans: list[Any], options: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    minute = dt.datetime(2026, 3, 2, 11, 20, tzinfo=dt.UTC)
    made = put(Lake(Storage(str(tmp_path / "young"))), ROLLUP_LINE, {ROLLUPS: [{"minute": minute}]})
    assert baseline(made.storage.root, *options) == 1
    assert words in capsys.readouterr().err
    assert spans == []
