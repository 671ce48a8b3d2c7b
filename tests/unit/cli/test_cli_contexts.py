"""``bus context``: which bus a command calls, and with which key."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def file(cli: Cli) -> Path:
    """Return the path of the file of contexts, which is not there yet."""
    del cli
    return Path(os.environ["XDG_CONFIG_HOME"], "pier", "contexts.json")


@pytest.fixture
def listed(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> FakeBus:
    """Return a bus with a context ``here`` and a context ``there`` that nothing answers; no variable names it."""
    monkeypatch.delenv("BUS_URL")
    bus.on("GET", "/api/v1/destinations", {"items": [], "next": None})
    assert cli("context", "set", "here", "--server", f"{bus.url}/", "--api-key", "secret").code == 0
    assert cli("context", "set", "there", "--server", NOWHERE).code == 0
    return bus


def keys(bus: FakeBus) -> list[str | None]:
    return [asked.headers.get("authorization") for asked in bus.asked]


def test_the_context_in_use_names_server_and_key(cli: Cli, listed: FakeBus) -> None:
    assert cli("context", "use", "here").code == 0
    assert cli("destination", "list").code == 0
    assert keys(listed) == ["Bearer secret"]


def test_an_option_and_a_variable_choose_another_context(
    cli: Cli, listed: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("context", "use", "there")
    assert NOWHERE in cli("destination", "list").err
    assert cli("destination", "list", "--context", "here").code == 0
    monkeypatch.setenv("BUS_CONTEXT", "here")
    assert cli("destination", "list").code == 0
    assert keys(listed) == ["Bearer secret"] * 2


def test_the_option_of_a_context_wins_over_variables(
    cli: Cli, listed: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_URL", NOWHERE)
    monkeypatch.setenv("BUS_API_KEY", "variable")
    monkeypatch.setenv("BUS_CONTEXT", "here")
    assert cli("destination", "list", "--context", "here").code == 0
    assert cli("destination", "list", "--context", "here", "--api-key", "own").code == 0
    assert keys(listed) == ["Bearer secret", "Bearer own"]


@pytest.mark.parametrize("chosen", ["variable", "in use"])
def test_an_address_wins_over_a_context_that_no_option_names(
    cli: Cli, listed: FakeBus, monkeypatch: pytest.MonkeyPatch, chosen: str
) -> None:
    if chosen == "variable":
        monkeypatch.setenv("BUS_CONTEXT", "there")
    else:
        cli("context", "use", "there")
    assert cli("destination", "list", "--server", listed.url).code == 0
    monkeypatch.setenv("BUS_URL", listed.url)
    monkeypatch.setenv("BUS_API_KEY", "variable")
    assert cli("destination", "list").code == 0
    assert keys(listed) == [None, "Bearer variable"]


def test_options_name_one_bus_only(cli: Cli, listed: FakeBus) -> None:
    ran = cli("destination", "list", "--context", "here", "--server", listed.url)
    assert (ran.code, ran.out) == (2, "")
    assert "give --server or --context, not both" in ran.err
    assert cli("destination", "list", "--context", "", "--server", listed.url).code == 0


def test_a_key_is_never_sent_to_a_server_of_another_context(
    cli: Cli, listed: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("context", "set", "there", "--api-key", "other")
    monkeypatch.setenv("BUS_CONTEXT", "there")
    assert cli("destination", "list", "--server", listed.url).code == 0
    monkeypatch.setenv("BUS_CONTEXT", "here")
    assert cli("destination", "list", "--server", listed.url).code == 0
    assert keys(listed) == [None, "Bearer secret"]


def test_keys_are_for_their_owner_only_and_never_shown(cli: Cli, listed: FakeBus, file: Path) -> None:
    del listed
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    shown = [cli("context", "list").out, cli("context", "list", "--json").out, cli("context", "show", "here").out]
    assert not [text for text in shown if "secret" in text]


@pytest.mark.usefixtures("listed")
def test_contexts_are_listed_shown_and_deleted(cli: Cli) -> None:
    assert cli("context", "show").err.startswith("error: no context is in use (hint: choose one with: bus context use")
    cli("context", "use", "there")
    assert [(one["name"], one["current"]) for one in cli("context", "list", "--json").json["items"]] == [
        ("here", False),
        ("there", True),
    ]
    assert cli("context", "show", "--json").json == {
        "name": "there", "server": NOWHERE, "api_key": None, "current": True
    }  # fmt: skip
    assert cli("context", "delete", "there").code == 0
    assert cli("context", "show").code == 1
    assert cli("context", "list").out.splitlines()[1:] == [
        "\t".join(["here", cli("context", "show", "here", "--json").json["server"], "set", "no"])
    ]


@pytest.mark.usefixtures("listed")
def test_a_change_keeps_what_is_not_given(cli: Cli, bus: FakeBus) -> None:
    kept = cli("context", "set", "here", "--url", bus.url, "--json")
    assert (kept.json["api_key"], kept.err) == ("set", "")
    cli("context", "set", "here", "--api-key", "")
    assert cli("context", "show", "here", "--json").json["api_key"] is None


@pytest.mark.usefixtures("listed")
def test_a_key_does_not_move_to_another_server(cli: Cli, bus: FakeBus) -> None:
    moved = cli("context", "set", "here", "--bus-url", NOWHERE, "--json")
    assert moved.json["api_key"] is None
    assert moved.err == f"removed the key, which was for {bus.url}; give the new one with --api-key\n"
    moved = cli("context", "set", "here", "--server", bus.url, "--api-key", "new", "--json")
    assert (moved.json["api_key"], moved.err) == ("set", "")


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("destination", "list", "--context", "hre"), 1, "there is no context 'hre' (hint: did you mean here?)"),
        (("context", "use", "zz"), 1, "there is no context 'zz' (hint: list them with: bus context list)"),
        (("context", "delete", "zz"), 1, "there is no context 'zz'"),
        (("context", "set", "new"), 2, "a new context needs an address"),
        (("context", "set", "new", "--server", "x"), 1, "--server 'x' is not an http or https address"),
        (
            ("context", "set", "new", "--server", "http://a:b@c"),
            1,
            "--server has a user name or a password (hint: give",
        ),
        (("context", "set", "a/b", "--server", NOWHERE), 1, "'a/b' is not a name of a context"),
    ],
)
def test_what_cannot_be_done_says_so(cli: Cli, arguments: tuple[str, ...], code: int, text: str) -> None:
    ran = cli(*arguments)
    assert (ran.code, ran.out) == (code, "")
    assert text in ran.err


def test_a_damaged_file_is_named(cli: Cli, file: Path) -> None:
    file.parent.mkdir()
    file.write_text("{")
    ran = cli("destination", "list")
    assert (ran.code, str(file) in ran.err) == (1, True)
    assert cli("destination", "list", "--help").code == 0


def test_a_file_in_place_of_the_folder_is_no_context(cli: Cli, file: Path) -> None:
    file.parent.write_text("")
    assert cli("context", "list", "--json").json["items"] == []


def test_a_file_that_may_not_be_read_is_needed_without_an_address_only(
    cli: Cli, bus: FakeBus, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    bus.on("GET", "/api/v1/destinations", {"items": [], "next": None})
    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert cli("destination", "list").code == 0
    monkeypatch.delenv("BUS_URL")
    assert cli("destination", "list", "--server", bus.url).code == 0
    ran = cli("destination", "list")
    assert (ran.code, ran.err) == (1, f"error: cannot read the contexts: permission denied: {file}\n")


def test_without_a_home_there_are_no_contexts(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert cli("context", "list", "--json").json["items"] == []
