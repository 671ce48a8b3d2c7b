"""The doctor asks the coordinator that the settings name."""

from __future__ import annotations

import json

import pytest

from bus.cli import run
from tests.harness.process import free_port


def checked(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    run(["doctor", "--json", "--url", f"http://127.0.0.1:{free_port()}"])
    said = capsys.readouterr()
    assert said.err == ""
    return next(check for check in json.loads(said.out)["checks"] if check["name"] == "coordinator")


def test_one_that_answers(place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BUS_ZOOKEEPER", place)
    found = checked(capsys)
    assert (found["ok"], found["detail"]) == (True, f"ZooKeeper at {place} answers")


def test_one_that_is_away(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BUS_ZOOKEEPER", f"127.0.0.1:{free_port()}")
    found = checked(capsys)
    assert not found["ok"]
    assert "ZooKeeper cannot be reached" in str(found["detail"])
    assert "check that ZooKeeper runs" in str(found["do"])
