"""Settings that cannot work stop the start, each with its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from bus.errors import ConfigurationError
from bus.transports.kafka import KafkaConfig, parse_bootstrap


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("kafka", ("kafka:9092",)),
        ("kafka:19092", ("kafka:19092",)),
        (" a.example:1 , b-2.example:65535,", ("a.example:1", "b-2.example:65535")),
        ("[::1]:9093,10.0.0.1", ("[::1]:9093", "10.0.0.1:9092")),
        ("", ()),
    ],
)
def test_servers_are_a_list_with_commas(text: str, servers: tuple[str, ...]) -> None:
    assert parse_bootstrap(text) == servers


@pytest.mark.parametrize("entry", ["a b", "kafka://a:9092", "a:0", "a:65536", "a:x", "::1", "a:1:2", "user@a"])
def test_an_entry_that_is_no_server_is_named(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="is not host or host:port") as refused:
        parse_bootstrap(f"good:9092,{entry}")
    assert repr(entry) in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"bootstrap": ()}, "names no broker"),
        ({"prefix": "a_b"}, "prefix 'a_b'"),
        ({"prefix": "a" * 65}, "prefix"),
        ({"username": "bus"}, "username and password"),
        ({"password": "secret"}, "username and password"),
        ({"ca_file": Path("ca.pem")}, "tls is off"),
        ({"cert_file": Path("c.pem"), "key_file": Path("k.pem")}, "tls is off"),
        ({"tls": True, "key_file": Path("k.pem")}, "cert_file and key_file"),
    ],
)
def test_what_cannot_work_is_said(changes: dict, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        KafkaConfig(**{"bootstrap": ("a:1",)} | changes)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    missing, garbage = tmp_path / "missing.pem", tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    for path in (missing, garbage):
        with pytest.raises(ConfigurationError, match=path.name):
            KafkaConfig(bootstrap=("a:1",), tls=True, ca_file=path).client_options()
        with pytest.raises(ConfigurationError, match=path.name):
            KafkaConfig(bootstrap=("a:1",), tls=True, cert_file=path, key_file=path).client_options()


@pytest.mark.parametrize(
    ("changes", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"tls": True}, "SSL"),
        ({"username": "u", "password": "p"}, "SASL_PLAINTEXT"),
        ({"username": "u", "password": "p", "tls": True}, "SASL_SSL"),
    ],
)
def test_the_protocol_follows_from_what_is_given(changes: dict, protocol: str) -> None:
    assert KafkaConfig(bootstrap=("a:1",), **changes).client_options()["security_protocol"] == protocol


def test_a_password_is_not_shown() -> None:
    assert "hidden" not in repr(KafkaConfig(bootstrap=("a:1",), username="u", password="hidden"))
