"""The command line, run in this process against a bus that answers what a test says."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from bus.cli import run
from tests.harness.fake_bus import FakeBus


@pytest.fixture
def bus() -> Iterator[FakeBus]:
    with FakeBus() as made:
        yield made


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Terminal(io.TextIOWrapper):
    """Standard input of a person."""

    def isatty(self) -> bool:
        return True


Cli = Callable[..., Ran]


@pytest.fixture
def cli(
    bus: FakeBus,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Cli:
    """Run ``bus ARGUMENTS`` against the fake bus; ``stdin`` is bytes."""
    monkeypatch.setenv("BUS_URL", bus.url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
    monkeypatch.delenv("BUS_API_KEY", raising=False)

    def call(*arguments: str, stdin: bytes = b"", at_terminal: bool = False) -> Ran:
        monkeypatch.setattr(sys, "stdin", (Terminal if at_terminal else io.TextIOWrapper)(io.BytesIO(stdin)))
        capsys.readouterr()
        code = run(arguments)
        return Ran(code, *capsys.readouterr())

    return call
