"""The content of a process's log, and secrets that must not be in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import httpx
import pytest

from bus.telemetry.logs import QUIET, configure_logs
from tests.harness.wire import JumpingLoop, jumping, served

SECRET = "whsec_c2VjcmV0"


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    levels = {name: logging.getLogger(name).level for name in QUIET}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def fail() -> None:
    held = SECRET
    raise RuntimeError("a bug", len(held))


def log_failure() -> None:
    try:
        fail()
    except RuntimeError:
        logging.getLogger("test").exception("it failed", extra={"message_id": "42"})


@pytest.mark.parametrize("as_json", [True, False])
def test_a_traceback_has_no_values_of_variables(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(level="info", json=as_json)
    log_failure()
    err = capsys.readouterr().err
    assert "RuntimeError" in err
    assert "in fail" in err
    assert "message_id" in err
    assert SECRET not in err


def test_what_a_peer_sends_wrong_does_not_fill_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(level="info", json=False)

    async def talk(loop: JumpingLoop) -> bytes:
        wire, _ = served(loop, None)
        wire.send(b"GARBAGE\r\n\r\n")
        return wire.heard

    assert jumping(talk).startswith(b"HTTP/1.1 400")
    logging.getLogger("uvicorn.error").error("Exception in ASGI application")
    (line,) = capsys.readouterr().err.splitlines()
    assert "Exception" in line


def test_json_is_one_line_for_each_entry(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(level="info", json=True)
    log_failure()
    (line,) = capsys.readouterr().err.splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["level"], entry["logger"]) == ("it failed", "error", "test")
    assert entry["message_id"] == "42"
    assert entry["timestamp"].endswith("Z")


def test_requests_that_the_bus_makes_are_not_logged_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logs(level="info", json=False)
    with httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))) as client:
        client.get("http://nsqd/stats")
    assert capsys.readouterr().err == ""
