"""The README's first minute: start the bus, add a destination and a URL, send, see it arrive, trace it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.harness.bus_process import BusProcess, bus_command, run_bus
from tests.harness.http import PLAIN
from tests.harness.process import ROOT
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

TRACE_WITHIN = 1.0


def done(bus: BusProcess, *arguments: object, text: str | None = None) -> str:
    """Run a command that must succeed and return its output."""
    result = run_bus(*arguments, text=text, env={"BUS_URL": bus.url})
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_first_message_arrives_and_can_be_traced(
    shared_bus: BusProcess, shared_subscriber: SubscriberProcess
) -> None:
    bus, subscriber = shared_bus, shared_subscriber
    done(bus, "destination", "set", "order.cancelled")
    done(bus, "subscription", "set", "order.cancelled", "stock", "--url", subscriber.url("/stock"))
    message_id = json.loads(done(bus, "send", "order.cancelled", "--biz-id", "42", "--json", text='{"order": 42}'))[
        "id"
    ]

    (call,) = wait_until(lambda: subscriber.calls("/stock"), within=60, what="the message")
    assert (call.id, call.destination, call.biz_id, call.attempt) == (message_id, "order.cancelled", "42", 1)

    bus.admin.wait_drained("order.cancelled", [message_id], within=60)
    trace = json.loads(done(bus, "trace", message_id, "--json"))
    assert [(each["subscription"], each["status"]) for each in trace["deliveries"]] == [("stock", "delivered")]
    assert message_id in done(bus, "trace", message_id)
    found = json.loads(done(bus, "search", "--biz-id", "42", "--json"))
    assert [item["id"] for item in found["items"]] == [message_id]
    heard = done(bus, "listen", "order.cancelled", "--from", "5m", "--count", "1")
    assert message_id in heard
    assert '{"order": 42}' in heard


def test_a_trace_is_visible_within_a_second(
    shared_bus: BusProcess, shared_subscriber: SubscriberProcess, code: str
) -> None:
    shared_bus.admin.destination(code)
    shared_bus.admin.subscription(code, "s", shared_subscriber.url(f"/{code}"))
    message_id = shared_bus.admin.send(code, b"{}").raise_for_status().json()["id"]
    wait_until(
        lambda: shared_bus.admin.call("GET", f"/api/v1/messages/{message_id}").is_success,
        within=TRACE_WITHIN,
        what="the trace",
        every=0.01,
    )


def test_a_file_of_lines_is_a_message_each(
    shared_bus: BusProcess, shared_subscriber: SubscriberProcess, tmp_path: Path, code: str
) -> None:
    shared_bus.admin.destination(code)
    shared_bus.admin.subscription(code, "s", shared_subscriber.url(f"/{code}"))
    lines = tmp_path / "lines.ndjson"
    lines.write_text("".join(f'{{"seq":{number},"x":1}}\n' for number in range(50)))
    done(shared_bus, "send", code, lines, "--ndjson")
    wait_until(lambda: len(shared_subscriber.calls(f"/{code}")) >= 50, within=60, what="50 messages")
    assert {call.seq for call in shared_subscriber.calls(f"/{code}")} == set(range(50))


def test_an_unknown_destination_is_one_line_and_exit_1(shared_bus: BusProcess) -> None:
    result = run_bus("send", "nobody", text="{}", env={"BUS_URL": shared_bus.url})
    assert result.returncode == 1
    assert "nobody" in result.stderr
    assert "Traceback" not in result.stderr


def test_nobody_listening_is_one_line_and_exit_1() -> None:
    result = run_bus("destination", "list", "--url", "http://127.0.0.1:9")
    assert result.returncode == 1
    assert "127.0.0.1:9" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("arguments", [["no-such-command"], ["send"], ["up", "--port", "many"]])
def test_wrong_usage_is_exit_2(arguments: list[str]) -> None:
    result = run_bus(*arguments)
    assert result.returncode == 2
    assert result.stderr.strip()


def test_it_prints_its_url(shared_bus: BusProcess) -> None:
    assert shared_bus.url in shared_bus.child.output()


@pytest.mark.parametrize(
    ("command", "roles"),
    [(["up"], ["dispatcher", "receiver", "compensator", "admin", "alarms"]), (["run", "admin"], ["admin"])],
)
def test_a_program_reads_its_url_in_one_line(tmp_path: Path, command: list[str], roles: list[str]) -> None:
    data = tmp_path / "data"
    argv = bus_command(*command, "--json", "--data", data, "--port", 0, "--url", "http://127.0.0.1:9", "--api-key", "k")
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BUS_")}
    env = {**clean, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env=env, cwd=ROOT, text=True) as process:
        try:
            assert process.stdout is not None
            announced = json.loads(process.stdout.readline())
            assert announced == {"url": announced["url"], "roles": roles, "data": str(data), "open": True}
            assert httpx.get(f"{announced['url']}/healthz", **PLAIN).status_code == 200
            for path, role in (("/v1/messages/d", "receiver"), ("/api/v1/health", "admin")):
                answer = httpx.get(f"{announced['url']}{path}", **PLAIN)
                assert (f"this process is no {role}" in answer.text) == (role not in roles)
        finally:
            process.terminate()
        assert process.stdout.read() == ""
        assert process.wait(60) == 0


def test_a_port_in_use_stops_the_start(shared_bus: BusProcess, tmp_path: Path) -> None:
    result = run_bus("up", "--data", tmp_path / "other", "--port", shared_bus.port)
    assert result.returncode == 1
    assert str(shared_bus.port) in result.stderr


def test_data_in_use_stops_the_start(shared_bus: BusProcess) -> None:
    result = run_bus("up", "--data", shared_bus.data, "--port", 0)
    assert result.returncode == 1
    assert str(shared_bus.data) in result.stderr
    assert shared_bus.admin.call("GET", "/healthz").is_success


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_exits_0(bus: BusProcess, tmp_path: Path, number: signal.Signals) -> None:
    with SubscriberProcess(tmp_path, "/slow=delay:0.5") as slow:
        bus.admin.destination("d")
        bus.admin.subscription("d", "s", slow.url("/slow"))
        bus.admin.send("d", b'{"seq":1,"x":1}').raise_for_status()
        wait_until(lambda: bus.admin.metric("bus_permits_in_use{"), within=60, what="a request in flight", every=0.01)
        bus.child.signal(number)
        assert bus.child.wait(60) == 0
        bus.start()
        bus.admin.wait_drained("d", [], within=60)
        assert len(slow.calls()) == 1
