"""Settings: the environment wins over the file, the command line over both, and what is impossible stops the start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bus.errors import ConfigurationError
from bus.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("BUS_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "bus.toml"


def refused(config: Path | None, overrides: dict | None = None) -> str:
    with pytest.raises(ConfigurationError) as error:
        load_settings(config, overrides or {})
    return str(error.value)


def test_the_defaults_are_those_of_the_contract() -> None:
    settings = load_settings(None, {})
    assert (settings.host, settings.data) == ("127.0.0.1", Path("data"))
    ports = {role: settings.port_for([role]) for role in ("receiver", "admin", "dispatcher", "sweeper")}
    assert ports == {"receiver": 8700, "admin": 8701, "dispatcher": 0, "sweeper": 0}
    assert settings.port_for(["dispatcher", "receiver", "admin"]) == 8700
    assert settings.is_loopback


def test_each_source_wins_over_the_one_before(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('port = 1001\nhost = "127.0.0.2"\ndata = "from-file"\n')
    monkeypatch.setenv("BUS_PORT", "1002")
    monkeypatch.setenv("BUS_DATA", "from-environment")
    settings = load_settings(config, {"port": 1003, "data": None})
    assert (settings.port, settings.host, settings.data) == (1003, "127.0.0.2", Path("from-environment"))


def test_an_unknown_key_is_named_with_those_that_are_allowed(config: Path) -> None:
    config.write_text("prot = 1\n")
    message = refused(config)
    assert "'prot'" in message
    assert "port" in message.split("allowed")[1]


def test_an_unknown_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_PROT", "1")
    assert "BUS_PROT" in refused(None)


def test_variables_of_the_client_and_of_tests_are_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUS_URL", "BUS_API_KEY", "BUS_TEST_X", "BUS_PROOF_X", "BUSY", "OTHER"):
        monkeypatch.setenv(name, "x")
    load_settings(None, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("port", 70_000), ("port", -1), ("port", "eighty"), ("spool_limit", 1), ("store_linger", 5)),
        *(("receive_timeout", 0), ("drain_timeout", -1), ("log_level", "loud"), ("disk_reserve", -1)),
        *(("audit_retention_days", 0), ("session_idle", 0), ("session_lifetime", 1), ("trusted_proxies", "proxy")),
        *(
            ("zookeeper", value)
            for value in ("zk", "zk:0", "zk:65536", ":2181", "zk:2181,", "zk:2181/", "zk:2181,/bus")
        ),
        *(("zookeeper", f"zk:2181/{path}") for path in ("zookeeper/bus", "a//b", "..", "a/.", "bus/", "b s")),
    ],
)
def test_an_impossible_value_is_named_with_its_key(
    config: Path, monkeypatch: pytest.MonkeyPatch, key: str, value: object
) -> None:
    config.write_text(f"{key} = {value!r}\n")
    assert f"{key} = {value!r}" in refused(config)
    monkeypatch.setenv(f"BUS_{key.upper()}", str(value))
    assert f"{key} = {str(value)!r}" in refused(None)
    assert f"{key} = {value!r}" in refused(None, {key: value})


def test_all_that_is_wrong_is_said_at_once(config: Path) -> None:
    config.write_text("port = -1\nprot = 2\n")
    message = refused(config)
    assert "port = -1" in message
    assert "'prot'" in message


@pytest.mark.parametrize("content", [b"port = ", b"\xff\xfe", b"[port\n"])
def test_a_file_that_is_no_toml_is_refused(config: Path, content: bytes) -> None:
    config.write_bytes(content)
    assert f"{config} is not TOML" in refused(config)


def test_a_file_that_cannot_be_read_is_refused(config: Path, tmp_path: Path) -> None:
    assert f"cannot read {config}: No such file or directory" in refused(config)
    assert "Is a directory" in refused(tmp_path)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)),
        *(
            ("0.0.0.0", False),
            ("::", False),
            ("10.0.0.1", False),
            ("example.com", False),
            ("127.0.0.1.evil.com", False),
        ),
    ],
)
def test_loopback_is_told_from_the_rest(host: str, loopback: bool) -> None:
    assert Settings(host=host).is_loopback is loopback


@pytest.mark.parametrize(("given", "expected"), [("1", 1), ("4", 4), ("auto", len(os.sched_getaffinity(0)))])
def test_processes_are_a_number_or_one_for_each_core(
    monkeypatch: pytest.MonkeyPatch, given: str, expected: int
) -> None:
    monkeypatch.setenv("BUS_PROCESSES", given)
    assert load_settings(None, {}).number_of_processes == expected


@pytest.mark.parametrize("given", ["0", "65", "many", "1.5"])
def test_another_number_of_processes_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^processes = '{given}': .*a number from 1 to 64, or auto$"):
        load_settings(None, {"processes": given})


@pytest.mark.parametrize("given", ["nonsense", '["a"]', '{"East!": "h:1"}', '{"east": 1}'])
def test_an_impossible_map_of_groups_is_told(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("BUS_KAFKA_GROUPS", given)
    with pytest.raises(ConfigurationError, match="kafka_groups") as refused:
        load_settings(None, {})
    assert "docs/configuration.md" in refused.value.hint
