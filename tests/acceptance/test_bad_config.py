"""A configuration that makes no sense stops the start, and says which key, which value, and what is allowed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.bus_process import BusProcess, run_bus

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


def everything(data: Path) -> dict[str, bytes]:
    """Return the files below a directory, with their content but for what a running bus changes by itself."""
    return {
        path.relative_to(data).as_posix(): b""
        if path.parent.name == "store" or path.name == "disk.samples"
        else path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.parent.name != "events"
    }


def test_a_role_that_is_not_there_joins_nothing(bus: BusProcess) -> None:
    before, known = everything(bus.data), bus.admin.call("GET", "/api/v1/processes").json()["items"]
    result = run_bus("run", "foo", "--data", bus.data, within=STOPS_WITHIN)
    assert result.returncode == 1
    assert "unknown role 'foo'" in result.stderr
    assert everything(bus.data) == before
    seen = bus.admin.call("GET", "/api/v1/processes").json()["items"]
    assert [one["owner"] for one in seen] == [one["owner"] for one in known]


def test_a_bus_that_strangers_could_reach_makes_nothing_before_it_is_refused(tmp_path: Path) -> None:
    result = run_bus("up", "--data", tmp_path / "data", "--host", "0.0.0.0", "--port", 0, within=STOPS_WITHIN)
    assert result.returncode == 1
    assert "needs a key" in result.stderr
    assert not (tmp_path / "data").exists()


def test_a_bus_that_strangers_could_reach_joins_nothing_before_it_is_refused(bus: BusProcess) -> None:
    before = everything(bus.data)
    result = run_bus("run", "compensator", "--data", bus.data, "--host", "0.0.0.0", "--port", 0, within=STOPS_WITHIN)
    assert result.returncode == 1
    assert "needs a key" in result.stderr
    assert everything(bus.data) == before
