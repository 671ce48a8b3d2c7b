"""Names that files in ``deploy`` may use: the product's settings, roles and options."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer
from typer.testing import CliRunner

from bus.cli.app import tree
from bus.settings import _PORTS, Settings

ROOT: Final = Path(__file__).parents[3]
DEPLOY: Final = ROOT / "deploy"
PROBES: Final = frozenset({"/healthz", "/readyz"})
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ROLES: Final = frozenset(PROJECT["project"]["entry-points"]["bus.roles"])
# Read by the command line alone, in a container's environment as in a person's.
OF_CLIENTS: Final = frozenset({"BUS_URL"})
# Where each role serves in all of these files; those of the product where it has one.
PORTS: Final = {"dispatcher": 8702, "compensator": 8703, "sweeper": 8704, "alarms": 8705} | _PORTS


def settings_of(environment: Mapping[str, str]) -> Settings:
    """Return the settings that an environment makes; each ``BUS_*`` in it must be one, with a possible value.

    References that are filled in later, ``$(POD_IP)`` or ``${PASSWORD}``, stand for a text.
    """
    given = {name: value for name, value in environment.items() if name.startswith("BUS_") and name not in OF_CLIENTS}
    names: dict[str, Any] = {name.removeprefix("BUS_").lower(): _filled(value) for name, value in given.items()}
    unknown = set(names) - set(Settings.model_fields)
    assert not unknown, f"no settings: {unknown}"
    maps = {name: json.loads(value) for name, value in names.items() if value.startswith("{")}
    return Settings(**names | maps)


def check_command(words: Sequence[str]) -> None:
    """Hold a command line of ``bus`` against the commands, roles and options that there are."""
    arguments = list(words)
    command = [word for word in arguments if not word.startswith("-")][: 2 if arguments[0] != "up" else 1]
    if command[0] == "run":
        assert command[1] in ROLES, command
        command = ["run"]
    usage = CliRunner().invoke(_app(command[0]), [*command, "--help"], terminal_width=200, color=False).output
    assert "Usage" in usage, f"no command: {command}"
    options = [word.partition("=")[0] for word in arguments if word.startswith("--")]
    missing = [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", usage)]
    assert not missing, f"{command} has no {missing}"


def _app(command: str) -> typer.Typer:
    return tree(command)


def _filled(value: str) -> str:
    value = re.sub(r"\$\([A-Z_]+\)", "10.0.0.1", value)
    return re.sub(r"\$\{[A-Z_]+(:[?-][^}]*)?\}", "0123456789abcdef", value)
