"""``bus context``: which bus a command calls, and with which key."""

from __future__ import annotations

import os
import stat
from pathlib import Path

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


def test_explicit_values_win_over_the_context(cli: Cli, listed: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("destination", "list", "--context", "here", "--api-key", "own").code == 0
    monkeypatch.setenv("BUS_URL", listed.url)
    assert cli("destination", "list", "--context", "there").code == 0
    monkeypatch.setenv("BUS_API_KEY", "variable")
    assert cli("destination", "list", "--context", "here").code == 0
    assert keys(listed) == ["Bearer own", None, "Bearer variable"]


def test_a_key_is_never_sent_to_a_server_of_another_context(
    cli: Cli, listed: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("context", "set", "there", "--api-key", "other")
    assert cli("destination", "list", "--context", "there", "--server", listed.url).code == 0
    assert cli("destination", "list", "--context", "here", "--server", listed.url).code == 0
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
    cli("context", "set", "here", "--server", NOWHERE)
    assert cli("context", "show", "here", "--json").json["api_key"] == "set"
    cli("context", "set", "here", "--server", bus.url, "--api-key", "")
    assert cli("context", "show", "here", "--json").json["api_key"] is None


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("destination", "list", "--context", "hre"), 1, "there is no context 'hre' (hint: did you mean here?)"),
        (("context", "use", "zz"), 1, "there is no context 'zz' (hint: list them with: bus context list)"),
        (("context", "delete", "zz"), 1, "there is no context 'zz'"),
        (("context", "set", "new"), 2, "a new context needs an address"),
        (("context", "set", "new", "--server", "x"), 1, "--server 'x' is not an http or https address"),
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


def test_without_a_home_there_are_no_contexts(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert cli("context", "list", "--json").json["items"] == []
