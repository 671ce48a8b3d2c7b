"""Settings: the environment wins over the file, the command line over both, and what is impossible stops the start."""

from __future__ import annotations

import os
import re
from contextlib import suppress
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


def test_an_unknown_key_is_named_with_the_one_that_is_like_it(config: Path) -> None:
    config.write_text("prot = 1\n")
    assert refused(config) == "unknown setting 'prot': did you mean port?"
    config.write_text("zzzzzz = 1\n")
    assert refused(config) == "unknown setting 'zzzzzz'"
    config.write_text("[alarm_channels.ops]\nurl = 'json://x'\nseverty = 'info'\n[alarm_rules.disk]\nhld = '1m'\n")
    assert refused(config) == (
        "unknown setting 'alarm_channels.ops.severty': did you mean severity?; "
        "unknown setting 'alarm_rules.disk.hld': did you mean hold?"
    )


def test_unknown_variables_are_named_with_those_that_are_like_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_PROT", "1")
    monkeypatch.setenv("BUS_ZZZZZZ", "1")
    with pytest.raises(ConfigurationError) as error:
        load_settings(None, {})
    assert str(error.value) == (
        "unknown setting 'BUS_PROT' in the environment: did you mean BUS_PORT?; "
        "unknown setting 'BUS_ZZZZZZ' in the environment"
    )
    assert error.value.hint == "see docs/configuration.md for every key"


def test_variables_of_the_client_and_of_tests_are_let_be(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BUS_URL", "BUS_API_KEY", "BUS_TEST_X", "BUS_PROOF_X", "BUSY", "OTHER"):
        monkeypatch.setenv(name, "x")
    load_settings(None, {})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("port", 70_000), ("port", -1), ("port", "eighty"), ("spool_limit", 1)),
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


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("port = 'x'", "port = 'x': expected a whole number from 0 to 65535"),
        ("spool_limit = 1.5", "spool_limit = 1.5: expected a whole number, 1048576 or more"),
        ("receive_timeout = 0", "receive_timeout = 0: expected a number above 0"),
        ("kafka_tls = 'maybe'", "kafka_tls = 'maybe': expected true or false"),
        ("log_level = 'loud'", "log_level = 'loud': expected 'debug', 'info', 'warning' or 'error'"),
        ("public_url = 'x'", "public_url = 'x': expected http:// or https://, a host and no path"),
        ("events_topic = 'a b'", "events_topic = 'a b': expected A-Z, a-z, 0-9, . and -, 180 characters at most"),
        ("otel_service = ''", "otel_service = '': expected a value that is not empty"),
        ("data = 1", "data = 1: expected a path"),
        ("node = 1", "node = 1: expected text"),
        ("alarm_rules.disk.off = 7", "alarm_rules.disk.off = 7: expected true or false"),
        ("alarm_channels.ops.url = ''", "alarm_channels.ops.url: expected a value that is not empty"),
        ("alarm_channels.ops.severity = 'info'", "alarm_channels.ops.url is missing"),
        (
            "trusted_proxies = 'proxy'",
            "trusted_proxies = 'proxy': expected networks or addresses with commas between: 10.0.0.0/8,192.0.2.7",
        ),
        (
            "kafka_groups = {'A B' = 'x'}",
            "kafka_groups: 'A B' is no name in it; expected a name of a-z, 0-9 and -, 32 characters at most",
        ),
    ],
)
def test_what_is_expected_is_said(config: Path, content: str, expected: str) -> None:
    config.write_text(f"{content}\n")
    assert refused(config) == expected


@pytest.mark.parametrize("given", ["[[]]", "{a = {}}", "nan", "-1", "''", "'x'", "true"])
def test_no_refusal_has_the_words_of_the_library(config: Path, given: str) -> None:
    told = []
    for name in Settings.model_fields:
        config.write_text(f"{name} = {given}\n")
        with suppress(ConfigurationError):
            load_settings(config, {})
            continue
        told.append(refused(config))
    assert told
    assert [said for said in told if re.search("Input|String should|Value error|pydantic|another value", said)] == []
    assert all(": expected " in said or said.endswith(" is missing") or "unknown setting" in said for said in told)


def test_what_may_have_a_password_in_it_is_not_repeated(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("secret_key = 12345\nrabbitmq_primary = 12345\nkafka_groups = 12345\nstore = ['12345']\n")
    message = refused(config)
    assert ("12345" in message, message.count(": expected ")) == (False, 4)
    monkeypatch.setenv("BUS_RABBITMQ_GROUPS", "amqp://me:12345@rabbit")
    message = refused(None)
    assert ("12345" in message, "BUS_RABBITMQ_GROUPS is not JSON" in message) == (False, True)


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
