"""A configuration that makes no sense stops the start, and says which key, which value, and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.bus_process import run_bus

STOPS_WITHIN = 10.0


def refused(tmp_path: Path, config: Path, env: dict[str, str] | None = None) -> str:
    """Start the bus with a configuration that it must refuse, and return what it says."""
    options = ["--config", config] if config.name else []
    result = run_bus("up", "--data", tmp_path / "data", "--port", 0, *options, env=env, within=STOPS_WITHIN)
    assert result.returncode == 1, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('colour = "blue"\n', ["colour"]),
        ('store = "oracle://nowhere"\n', ["store", "oracle"]),
        ("store = 5\n", ["store", "5"]),
        ("[unknown]\nx = 1\n", ["unknown"]),
        ('egress_deny = "300.0.0.0/8"\n', ["egress_deny", "300.0.0.0/8"]),
    ],
)
def test_a_wrong_key_or_value_is_named(tmp_path: Path, text: str, named: list[str]) -> None:
    config = tmp_path / "bus.toml"
    config.write_text(text)
    said = refused(tmp_path, config)
    assert all(word in said for word in named), said


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    config = tmp_path / "bus.toml"
    config.write_text("= = =\n")
    assert "bus.toml" in refused(tmp_path, config)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "bus.toml"
    folder.mkdir()
    assert "bus.toml" in refused(tmp_path, folder)
    assert "absent.toml" in refused(tmp_path, tmp_path / "absent.toml")


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    assert "oracle" in refused(tmp_path, Path(), {"BUS_STORE": "oracle://nowhere"})
