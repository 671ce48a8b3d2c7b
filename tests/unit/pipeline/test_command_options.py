"""Options that several commands take reach each of them, whatever stands before and behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bus.cli import run
from bus.cli.options import Output
from pipeline.commands import archiving, baselining, judging, rebuilding, reconciling, replaying, rolling
from pipeline.commands.telling import ReportTarget
from pipeline.options import SessionOptions
from pipeline.serving import command, plan

SPARK = ("--master", "local[1]", "--memory", "3g", "--connectors", "jars")
COMMANDS = {
    "rollup": (rolling, ("--lake", "l", "--events", "e")),
    "rebuild": (rebuilding, ("--lake", "l")),
    "archive": (archiving, ("--lake", "l", "--store", "s")),
    "reconcile": (reconciling, ("--lake", "l")),
    "replay": (replaying, ("again-1", "--lake", "l", "--where", "true")),
    "baseline": (baselining, ("--lake", "l")),
    "judge": (judging, ("--lake", "l")),
}
TABLES = ("archive", "reconcile", "baseline", "judge")


def ran(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return what the command was called with: its own options, those of Spark, and the rest."""
    module, needed = COMMANDS[name]
    calls: list[tuple[Any, Any, dict[str, Any]]] = []
    monkeypatch.setattr(module, "run", lambda own, session, **rest: calls.append((own, session, rest)))
    assert run(["pipeline", name, *needed, *arguments]) == 0
    return calls[0]


def shown(name: str, *, as_json: bool) -> dict[str, Any]:
    """Return how a command is told to show what it found."""
    return {"output": Output(as_json)} if name in TABLES else {"as_json": as_json}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_the_options_of_spark(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    given = SessionOptions("local[1]", "3g", Path("jars"))
    assert ran(monkeypatch, name, *SPARK, "--json")[1:] == (given, shown(name, as_json=True))
    assert ran(monkeypatch, name)[1:] == (SessionOptions(None, "2g", None), shown(name, as_json=False))


def test_the_bus_and_the_range_reach_the_commands_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = ("--url", "http://there", "--api-key", "k")
    for name in ("archive", "replay"):
        own, _, _ = ran(monkeypatch, name, *bus)
        assert (own.url, own.api_key) == ("http://there", "k")
    times = ("--from", "2026-01-31T00:00:00Z", "--to", "2026-02-01T00:00:00Z")
    own, _, _ = ran(monkeypatch, "reconcile", *times, "--repair", *bus)
    assert (own.repairing.url, own.repairing.api_key) == ("http://there", "k")
    assert own.telling is None
    for name in ("reconcile", "judge"):
        assert ran(monkeypatch, name, "--tell", *bus)[0].telling == ("http://there", "k")
    asked = ran(monkeypatch, "replay", *times)[0].asked
    assert (asked.since, asked.before) == (own.plan.since, own.plan.before)
    assert [asked.since.day, asked.before.day] == [31, 1]


@pytest.mark.parametrize(
    ("arguments", "variables", "told"),
    [
        ((), {}, ("http://127.0.0.1:8711", "setting")),
        (("--server", "http://named"), {}, ("http://named", "setting")),
        (("--context", "there"), {}, ("http://there", "")),
        ((), {"BUS_CONTEXT": "there"}, ("http://there", "")),
        (("--api-key", "own"), {"BUS_CONTEXT": "there"}, ("http://there", "own")),
        (("--context", "there"), {"BUS_URL": "http://named", "BUS_API_KEY": "variable"}, ("http://there", "")),
    ],
)
def test_the_jobs_tell_the_bus_that_is_configured_and_no_context_in_use(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: tuple[str, ...],
    variables: dict[str, str],
    told: tuple[str, str],
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("BUS_URL", "BUS_API_KEY", "BUS_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    assert run(["context", "set", "there", "--server", "http://there"]) == 0
    assert run(["context", "use", "there"]) == 0
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = tmp_path / "bus.toml"
    config.write_text('port = 8711\napi_key = "setting"\n')
    targets: list[ReportTarget] = []
    monkeypatch.setattr(plan, "plan_of", lambda _settings, telling, _session: targets.append(telling))
    monkeypatch.setattr(command, "run", lambda *_, **__: None)
    assert run(["pipeline", "serve", "--config", str(config), "--data", str(tmp_path), *arguments]) == 0
    assert targets == [told]


def test_a_replay_goes_into_a_destination_only_when_it_is_frozen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(monkeypatch, "replay", "--into", "other")[0].asked.into == "other"
    assert ran(monkeypatch, "replay")[0].asked.into is None
    assert run(["pipeline", "replay", "again-1", "--lake", "l", "--into", "other"]) == 2
    assert "give --where" in capsys.readouterr().err
