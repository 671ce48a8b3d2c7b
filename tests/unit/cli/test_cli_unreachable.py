"""Reasons why a server cannot be reached, in plain words; and hints that call the same bus when they are copied."""

from __future__ import annotations

import errno
import socket
import ssl

import httpx
import pytest

from bus.cli.unreachable import why_unreachable
from tests.harness.fake_bus import FakeBus
from tests.unit.cli.conftest import Cli

CODE = "/api/v1/destinations/orders"
NOT_THERE = (404, {"title": "Not found", "detail": "there is none", "hint": "make it with: bus destination set orders"})
START = (404, {"title": "Not found", "detail": "there is none", "hint": "start one: bus run dispatcher"})


def certificate(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed (_ssl.c:1006)")
    error.verify_code = code
    return error


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused by bus.example:8700"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "DNS: bus.example not found"),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure"), "DNS: lookup of bus.example failed"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), "bus.example:8700: network is unreachable"),
        (ConnectionResetError(104, "reset"), "bus.example:8700 closed the connection without a response"),
        (certificate(10), "TLS: certificate expired"),
        (certificate(18), "TLS: self-signed certificate"),
        (certificate(62), "TLS: certificate is for another host"),
        (certificate(20), "TLS: certificate not trusted"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]"), "TLS: handshake with bus.example:8700 failed; does it"),
        (TimeoutError(), "timed out connecting to bus.example:8700"),
    ],
)
def test_errors_of_the_system_are_told_in_plain_words(cause: Exception, reason: str) -> None:
    kind = httpx.ConnectTimeout if isinstance(cause, TimeoutError) else httpx.ConnectError
    error = kind(f"[Errno] {cause}")
    error.__cause__ = cause
    assert why_unreachable(error, "http://bus.example:8700/", 30).startswith(reason)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (httpx.ReadTimeout("timed out"), "timed out after 30 s waiting for the response"),
        (httpx.RemoteProtocolError("Server disconnected"), "[::1]:443 closed the connection without a response"),
        (httpx.InvalidURL("Invalid port: 'x'"), "Invalid port: 'x'"),
    ],
)
def test_errors_of_http_are_told_in_plain_words(error: Exception, reason: str) -> None:
    assert why_unreachable(error, "https://[::1]/", 30) == reason


def test_the_default_address_that_nothing_serves_is_told_how_to_start(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_URL", "http://127.0.0.1:9")
    assert cli("status").err.endswith("(hint: start one with: bus up; or give --server)\n")


def test_commands_in_hints_call_the_same_bus(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    bus.on("GET", CODE, NOT_THERE)
    assert cli("destination", "show", "orders").err.endswith("bus destination set orders)\n"), "a variable stays set"
    monkeypatch.setenv("BUS_URL", "http://127.0.0.1:9")
    ran = cli("destination", "show", "orders", "--server", bus.url, "--api-key", "secret")
    assert ran.err.endswith(f"bus destination set orders --server {bus.url})\n")
    monkeypatch.delenv("BUS_URL")
    cli("context", "set", "here", "--server", bus.url)
    ran = cli("destination", "show", "orders", "--context", "here")
    assert ran.err.endswith("bus destination set orders --context here)\n")


def test_commands_that_start_a_process_are_as_they_are(cli: Cli, bus: FakeBus) -> None:
    bus.on("GET", CODE, START)
    assert cli("destination", "show", "orders", "--server", f"{bus.url}/").err.endswith("bus run dispatcher)\n")


def test_next_steps_at_a_terminal_call_the_same_bus(cli: Cli, bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    bus.on("POST", "/v1/messages/orders", (202, {"id": "i", "duplicate": False}))
    assert "bus trace i --server http" in cli("send", "orders", "--server", f"{bus.url}/", stdin=b"{}").err
    assert "--server" not in cli("send", "orders", stdin=b"{}").err
