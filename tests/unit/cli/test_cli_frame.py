"""Usage, errors and help."""

from __future__ import annotations

import builtins
import errno
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer

from bus.cli.app import tree
from bus.cli.commands import serving
from bus.serving import Place
from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

ROOT = Path(__file__).resolve().parents[3]


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command and group of commands, with the words that call it."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


TREE = dict(commands(typer.main.get_command(tree())))
GROUPS = [path for path, command in TREE.items() if hasattr(command, "commands")]
COMMANDS = [path for path in TREE if path not in GROUPS]
WITHOUT_AN_ADDRESS = {
    *(("context", name) for name in ("list", "show", "use", "delete")),
    *(("pipeline", name) for name in ("connectors", "prepare", "rollup", "rebuild", "compact", "find", "baseline")),
}
WITHOUT_A_CONTEXT = {"up", "run", "backup", "restore", "lookup", "context"}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_has_help_json_and_the_options_of_a_bus(cli: Cli, path: tuple[str, ...]) -> None:
    ran = cli(*path, "--help")
    assert ran.code == 0
    assert "--json" in ran.out
    found = [option.opts for option in TREE[path].params if "--server" in option.opts]
    names = ["--server", "--bus-url"] if path == ("subscription", "set") else ["--server", "--url", "--bus-url"]
    has_address = path not in WITHOUT_AN_ADDRESS
    assert found == [names] * has_address
    assert ("--api-key" in ran.out) == has_address
    assert ("BUS_CONTEXT" in ran.out) == (has_address and path[0] not in WITHOUT_A_CONTEXT)
    assert ("BUS_URL" in ran.out) == (has_address and path[0] not in {"lookup", "context"})


@pytest.mark.parametrize("option", ["--server", "--url", "--bus-url"])
def test_the_address_of_the_bus_has_three_names(
    cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    bus.on("GET", "/api/v1/destinations", {"items": [], "next": None})
    monkeypatch.setenv("BUS_URL", "http://127.0.0.1:9")
    assert cli("destination", "list", option, bus.url).code == 0


def test_a_subscription_has_a_url_of_its_own(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.on("PUT", "/api/v1/destinations/orders/subscriptions/shop", {"url": "http://shop.example/"})
    monkeypatch.setenv("BUS_URL", "http://127.0.0.1:9")
    given = ("subscription", "set", "orders", "shop", "--url", "http://shop.example/")
    assert [cli(*given, option, bus.url).code for option in ("--server", "--bus-url")] == [0, 0]
    assert [asked.body for asked in bus.asked if asked.method == "PUT"] == [{"url": "http://shop.example/"}] * 2


def test_the_version_is_told_and_in_the_help(cli: Cli) -> None:
    ran = cli("--version")
    assert (ran.code, ran.out) == (0, f"pier-bus {version('pier-bus')}\n")
    assert "--version" in cli("--help").out


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("send",),
        ("send", "a", "--nonsense"),
        ("trace",),
        ("search", "--limit", "0"),
        ("search", "--limit", "x"),
        ("search", "--from", "yesterday"),
        ("search", "--to", "2026-01-31T12:00:00"),
        ("resend",),
        ("resend", "--destination", "a"),
        ("resend", "x", "--status", "dead"),
        ("resend", "x", "--dry-run"),
        ("subscription", "set", "a"),
        ("subscription", "set", "a", "b", "--header", "x"),
        ("subscription", "set", "a", "b", "--retry", "{"),
        ("send", "a", "--header", "x"),
        ("key", "create", "--role", "king"),
        ("user", "add"),
    ],
)
def test_wrong_usage_is_one_line_and_2(cli: Cli, bus: FakeBus, arguments: tuple[str, ...]) -> None:
    ran = cli(*arguments)
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("error: ")
    assert ran.err.count("\n") == 1
    assert "--help)" in ran.err
    assert bus.asked == []


def test_a_group_alone_shows_its_commands(cli: Cli) -> None:
    ran = cli("destination")
    assert ran.code == 2
    assert "Commands:" in ran.err


def test_nothing_shows_help(cli: Cli) -> None:
    ran = cli()
    assert ran.code == 0
    assert "Start with:\n    bus up\n" in ran.out


def test_no_answer_is_one_line_and_1(cli: Cli) -> None:
    ran = cli("destination", "list", "--url", "http://127.0.0.1:9")
    assert ran.code == 1
    assert ran.err == (
        "error: cannot reach http://127.0.0.1:9: connection refused by 127.0.0.1:9 (hint: check --server)\n"
    )


@pytest.mark.parametrize("url", ["x", "ftp://x", "http://"])
def test_an_impossible_url_says_so(cli: Cli, url: str) -> None:
    ran = cli("destination", "list", "--url", url)
    assert ran.code == 1
    assert "--server" in ran.err


NOT_THERE = (404, {"title": "Not found", "status": 404, "detail": "there is none"})


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("send", "ordres"), " (hint: did you mean orders?)"),
        (("destination", "show", "Orders"), " (hint: did you mean orders?)"),
        (("subscription", "list", "order"), " (hint: did you mean orders?)"),
        (("subscription", "show", "orders", "shpo"), " (hint: did you mean shop?)"),
        (("subscription", "pause", "ordres", "shop"), " (hint: did you mean orders?)"),
        (("subscription", "rm", "orders", "zzzz"), ""),
        (("ordering", "show", "ordres"), " (hint: did you mean orders?)"),
        (("trace", "ordres"), ""),
    ],
)
def test_a_name_that_is_not_there_brings_the_one_that_is_like_it(
    cli: Cli, bus: FakeBus, arguments: tuple[str, ...], hint: str
) -> None:
    bus.on("GET", "/api/v1/destinations", {"items": [{"code": "orders"}, {"code": "invoices"}], "next": None})
    bus.on("GET", "/api/v1/destinations/orders/subscriptions", {"items": [{"name": "shop"}], "next": None})
    ran = cli(*arguments)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert ran.err.endswith(f"{hint}\n")
    assert ("did you mean" in ran.err) == bool(hint)


def test_who_may_not_list_destinations_gets_the_refusal_alone(cli: Cli, bus: FakeBus) -> None:
    bus.on("POST", "/v1/messages/ordres", NOT_THERE)
    bus.on("GET", "/api/v1/destinations", (403, {"title": "Not allowed", "status": 403}))
    assert cli("send", "ordres").err == "error: there is none\n"


def test_a_refusal_says_what_the_bus_said(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", "/api/v1/destinations", (403, {"title": "Not allowed", "status": 403, "detail": "no\nway"}))
    ran = cli("destination", "list")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "error: no way (hint: the key lacks this permission" in ran.err


@pytest.mark.parametrize("answer", [(500, b"<html>"), (502, b""), (200, b"<html>")])
def test_what_is_not_a_bus_is_named(cli: Cli, bus: FakeBus, answer: Any) -> None:
    bus.on("GET", "/api/v1/destinations", answer)
    ran = cli("destination", "list")
    assert ran.code == 1
    assert bus.url in ran.err


@pytest.mark.parametrize("answer", [{"status": "ok"}, {"items": 1}, [], None])
@pytest.mark.parametrize("command", ["destination list", "lookup status --server"])
def test_json_that_is_not_that_of_a_bus_is_no_traceback(cli: Cli, bus: FakeBus, command: str, answer: Any) -> None:
    for path in ("/api/v1/destinations", "/api/v1/lookup/migrations"):
        bus.on("GET", path, answer)
    ran = cli(*command.split(), *([bus.url] if command.endswith("--server") else []))
    assert ran.code == 1
    assert ran.err == f"error: {bus.url} is not a bus, or one of another version (hint: check --server)\n"


def test_an_error_that_nothing_expects_is_one_line_in_words(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RecursionError("too\ndeep")

    monkeypatch.setattr("bus.cli.commands.contexts.read_contexts", fail)
    ran = cli("context", "list")
    assert (ran.code, ran.out, ran.err) == (1, "", "error: internal error (recursion): too deep\n")
    assert "in fail" in caplog.text  # the log of a process that serves has the traceback


def test_the_key_is_sent(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.on("GET", "/api/v1/destinations", {"items": [], "next": None})
    cli("destination", "list", "--api-key", "secret")
    monkeypatch.setenv("BUS_API_KEY", "other")
    cli("destination", "list")
    assert [asked.headers["authorization"] for asked in bus.asked] == ["Bearer secret", "Bearer other"]


@pytest.mark.parametrize("arguments", [("up",), ("run", "receiver"), ("key", "create", "--data", "x")])
def test_without_the_server_extra_it_is_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name in ("bus.bootstrap", "bus.serving"):
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    ran = cli(*arguments)
    assert ran.code == 1
    assert "uvicorn is not installed" in ran.err
    assert 'pip install "pier-bus[server]"' in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("up",), "starting the bus ...\n"),
        (("run", "receiver"), "starting the receiver ...\n"),
    ],
)
def test_a_start_tells_a_person_before_it_loads_anything(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    told: list[str] = []
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name in ("bus.bootstrap", "bus.serving"):
            told.append("loaded")
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    assert not cli(*arguments).err.startswith("starting")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert cli(*arguments).err.startswith(said)
    monkeypatch.setenv(serving.PLACE, "{}")
    assert not cli(*arguments).err.startswith("starting"), "its supervisor has told it"
    assert len(told) == 3


def test_a_place_is_called_as_the_supervisor_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(0, 1, (), 0, 0, 0, 0, 0)
    monkeypatch.setenv(serving.PLACE, place.environment()[serving.PLACE])
    assert Place.inherited() == place


def test_an_unreadable_configuration_stops_the_start(cli: Cli, tmp_path: Path) -> None:
    ran = cli("up", "--config", str(tmp_path / "none.toml"))
    assert ran.code == 1
    assert "none.toml" in ran.err


def test_an_error_of_the_system_has_no_number(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr("bus.cli.contexts.write_whole", full)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    ran = cli("context", "set", "x", "--server", "http://127.0.0.1:1")
    assert (ran.code, ran.err) == (1, f"error: no space left on device: {tmp_path}/pier/contexts.json\n")


def test_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bus.cli", "destination", "list", "--url", "http://127.0.0.1:9"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("error: cannot reach ")
    assert "Traceback" not in done.stderr


def test_a_closed_pipe_is_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "bus.cli", "--help"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert b"Traceback" not in err


def test_a_value_that_is_none_of_those_allowed_is_told_which_are(cli: Cli) -> None:
    ran = cli("key", "create", "--role", "nonsense")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: Invalid value for '--role': 'nonsense' is not one of 'producer', ")


@pytest.mark.parametrize("path", GROUPS, ids=" ".join)
def test_no_list_of_commands_is_cut_at_80_columns(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    described = cli(*path, "--help").out.partition("Commands:\n")[2]
    assert described
    assert "..." not in described
