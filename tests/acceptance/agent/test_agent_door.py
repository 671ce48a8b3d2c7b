"""A node's agent as a process: it answers as a receiver does, keeps what it took, and comes and goes."""

from __future__ import annotations

import json
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bus.client.spooling.home import homes
from tests.harness.agent_process import AgentProcess
from tests.harness.bus_process import BusProcess, bus_command, run_bus
from tests.harness.http import PLAIN
from tests.harness.process import Child
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

NDJSON = {"content-type": "application/x-ndjson"}
MIB = 2**20
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def agent(shared_bus: BusProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """Run an agent for tests that harm nothing of it."""
    shared_bus.admin.destination("known")
    with AgentProcess(tmp_path_factory.mktemp("agent"), shared_bus.url) as process:
        yield process


def post(url: str, path: str, **given: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/messages{path}", timeout=30, **PLAIN, **given)


def shown(answer: httpx.Response) -> tuple[Any, ...]:
    return answer.status_code, answer.headers["content-type"], answer.json()


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("/known", {"content": bytes(MIB + 1)}),
        ("/known", {"content": iter([bytes(MIB), b"x"])}),
        ("/known", {"content": b"x", "headers": {"content-encoding": "gzip"}}),
        ("/known", {"content": b"x", "headers": {"bus-message-id": "7"}}),
        ("/known", {"content": b"x", "headers": {"bus-deliver-at": "tomorrow"}}),
        ("/known", {"content": b"x", "headers": {"bus-header-host": "x"}}),
        ("/known", {"content": b"x", "headers": {"bus-biz-id": "x" * 600}}),
        ("/-no-code", {"content": b"x"}),
        ("/a/b", {"content": b"x"}),
        ("", {"content": b"{}"}),
        ("", {"content": b"x", "headers": NDJSON | {"content-encoding": "gzip"}}),
        ("", {"content": bytes(16 * MIB + 1), "headers": NDJSON}),
        ("", {"content": b'{"destination":"known","body":1}\n' * 1001, "headers": NDJSON}),
        ("", {"content": b'nope\n\n{"destination":"known"}\n{"destination":"-","body":1}', "headers": NDJSON}),
        ("", {"content": iter([b'{"destination":"known",', b'"body":1,"id":"7"}']), "headers": NDJSON}),
        ("", {"content": b"", "headers": NDJSON}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_refuses_what_a_receiver_refuses_in_the_same_words(
    shared_bus: BusProcess, agent: AgentProcess, path: str, given: dict[str, Any]
) -> None:
    if hasattr(given["content"], "__next__"):
        given["content"] = list(given["content"])
    there, here = post(shared_bus.url, path, **given), post(agent.url, path, **given)
    assert 200 <= there.status_code < 500
    assert shown(here)[:2] == shown(there)[:2]
    # Where only a receiver knows which destinations there are, it says so.
    if path not in ("/-no-code", "/a/b"):
        assert shown(here) == shown(there)


def test_other_calls_are_not_an_agent_s(agent: AgentProcess) -> None:
    with httpx.Client(base_url=agent.url, **PLAIN) as client:
        assert client.get("/v1/messages/known").status_code == 405
        assert client.post("/healthz").status_code == 405
        for path in ("/", "/v1/events", "/v1/producers/known", "/api/v1/messages", "/admin"):
            answer = client.post(path, content=b"x")
            assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        assert client.get("/healthz", headers={"host": "evil"}).status_code == 200
        for path in ("/readyz", "/metrics", "/v1/messages/known"):
            assert client.request("GET", path, headers={"host": "evil"}).status_code == 403
        assert client.post("/v1/messages/known", content=b"x", headers={"host": "evil"}).status_code == 403
        page = {"origin": "https://evil.example", "content-type": "text/plain"}  # as fetch() in mode no-cors sends it
        assert client.post("/v1/messages/known", content=b"x", headers=page).status_code == 403
        upgrade = {
            "upgrade": "websocket",
            "connection": "upgrade",
            "sec-websocket-key": "x",
            "sec-websocket-version": "13",
        }
        assert client.get("/", headers=upgrade).status_code == 404


def test_a_message_is_delivered_as_if_the_receiver_had_taken_it(
    shared_bus: BusProcess, agent: AgentProcess, shared_subscriber: SubscriberProcess, code: str
) -> None:
    admin = shared_bus.admin
    admin.destination(code)
    admin.subscription(code, "shop", shared_subscriber.url(f"/{code}"))
    headers = {
        "bus-biz-id": "订单-42".encode(),
        "bus-key": b"7",
        "content-type": b"text/x; charset=utf-8",
        "bus-header-x-tenant": b"eu",
        "authorization": b"Bearer of another",
        "idempotency-key": b"once",
    }
    ids = []
    for url in (shared_bus.url, agent.url):
        given = {name.encode(): value for name, value in headers.items()} | {b"idempotency-key": url.encode()}
        answer = post(url, f"/{code}", content=b"\x00 body", headers=given)
        assert answer.status_code == 202
        ids.append(answer.json()["id"])
    again = post(agent.url, f"/{code}", content=b"\x00 body", headers={"idempotency-key": agent.url})
    assert again.status_code == 202
    chunks = post(agent.url, f"/{code}", content=iter([b"in ", b"pieces"]))
    assert chunks.json()["duplicate"] is False
    admin.wait_drained(code, {*ids, chunks.json()["id"]}, within=30)
    calls = {call.id: call for call in shared_subscriber.calls(f"/{code}")}
    assert set(calls) == {*ids, chunks.json()["id"]}  # and not what was sent again under its key
    first, second = (calls[one] for one in ids)
    for field in ("sha256", "biz_id", "key", "content_type", "destination"):
        assert getattr(first, field) == getattr(second, field)


def test_what_the_receiver_refuses_for_good_is_kept_and_seen(shared_bus: BusProcess, tmp_path: Path) -> None:
    with AgentProcess(tmp_path, shared_bus.url) as agent:
        assert post(agent.url, "/nowhere", content=b"x").status_code == 202

        def figures() -> str:
            return httpx.get(f"{agent.url}/metrics", **PLAIN).text

        wanted = 'bus_spool_records{consumer="rejected",spool="agent"} 1.0'
        wait_until(lambda: wanted in figures(), within=20, what="the refusal is counted", state=figures)
        assert 'bus_agent_messages_total{destination="nowhere",source="agent"} 1.0' in figures()
        ready = f"{agent.url}/readyz"
        wait_until(lambda: httpx.get(ready, **PLAIN).json()["status"] == "degraded", within=20, what="it says so")
        assert httpx.get(ready, **PLAIN).status_code == 200
        listed = run_bus("spool", "ls", agent.spool, "--json")
        assert '"rejected"' in listed.stdout


def test_while_the_bus_is_away_it_takes_messages_and_sends_them_later(
    bus: BusProcess, subscriber: SubscriberProcess, tmp_path: Path
) -> None:
    bus.admin.destination("orders")
    bus.admin.subscription("orders", "shop", subscriber.url("/shop"))
    with AgentProcess(tmp_path, bus.url) as agent:
        ready = f"{agent.url}/readyz"
        assert httpx.get(ready, **PLAIN).json()["status"] == "ok"
        bus.kill()
        wait_until(lambda: httpx.get(ready, **PLAIN).json()["status"] == "degraded", within=20, what="it is noticed")
        ids = {post(agent.url, "/orders", content=b"%d" % number).json()["id"] for number in range(20)}
        agent.kill()  # what it answered for is on disk
        agent.start()
        ids |= {post(agent.url, "/orders", content=b"%d" % number).json()["id"] for number in range(20)}
        bus.start()
        wait_until(lambda: {call.id for call in subscriber.calls("/shop")} >= ids, within=40, what="all is delivered")
        wait_until(lambda: httpx.get(ready, **PLAIN).json()["status"] == "ok", within=20, what="it is well again")
        assert agent.stop() == 0
    assert homes(agent.spool) == []


def test_a_stop_answers_what_is_in_flight_and_sends_what_it_can(
    bus: BusProcess, subscriber: SubscriberProcess, tmp_path: Path
) -> None:
    bus.admin.destination("orders")
    with AgentProcess(tmp_path, bus.url) as agent, socket.create_connection(("127.0.0.1", agent.port)) as peer:
        peer.sendall(b"POST /v1/messages/orders HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nha")
        post(agent.url, "/orders", content=b"1")
        agent.child.signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in agent.child.output(), within=20, what="it stops")
        peer.sendall(b"lf")
        peer.settimeout(20)
        answer = peer.recv(4096)
        assert b" 202 " in answer
        assert agent.child.wait(20) == 0
        assert homes(agent.spool) == []
    wait_until(lambda: len(list(bus.admin.messages(destination="orders"))) == 2, within=20, what="both are there")


def test_two_on_one_directory_have_a_queue_each(bus: BusProcess, tmp_path: Path) -> None:
    bus.admin.destination("orders")
    spool = tmp_path / "spool"
    with (
        AgentProcess(tmp_path, NOWHERE, spool=spool, name="one") as one,
        AgentProcess(tmp_path, NOWHERE, spool=spool, name="other") as other,
    ):
        for agent in (one, other):
            assert post(agent.url, "/orders", content=b"1").status_code == 202
        assert len(homes(spool)) == 2
        one.kill()
    with AgentProcess(tmp_path, bus.url, spool=spool, name="third"):
        wait_until(
            lambda: len(list(bus.admin.messages(destination="orders"))) == 2,
            within=40,
            what="what both left is sent",
        )


def test_a_unix_socket_is_the_same_door(shared_bus: BusProcess, tmp_path: Path) -> None:
    path = tmp_path / "agent.sock"
    with AgentProcess(tmp_path, shared_bus.url, "--socket", path) as agent:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
            assert client.post("/v1/messages/known", content=b"x").status_code == 202
            lines = b'{"destination":"known","body":1}\n{"destination":"known","body":2}'
            results = client.post("/v1/messages", content=lines, headers=NDJSON).json()["results"]
            assert [result["status"] for result in results] == ["accepted", "accepted"]
            assert client.get("/healthz").json()["status"] == "ok"
            assert client.get("/healthz", headers={"host": "evil"}).status_code == 200
            assert client.post("/v1/messages/known", content=b"x", headers={"host": "evil"}).status_code == 403
        second = run_bus("agent", "--url", shared_bus.url, "--spool", agent.spool, "--port", 0, "--socket", path)
        assert (second.returncode, second.stderr.count("\n")) == (1, 1)
        assert "another agent does" in second.stderr
        agent.kill()
        assert path.exists()
        agent.start()
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as client:
            assert client.post("/v1/messages/known", content=b"x").status_code == 202
        assert agent.stop() == 0
        assert not path.exists()


def test_beyond_loopback_it_asks_for_its_own_key(tmp_path: Path) -> None:
    with AgentProcess(tmp_path, NOWHERE, "--host", "0.0.0.0", "--api-key", "secret") as agent:
        for key, status in (("secret", 202), ("another", 401)):
            shown = {"authorization": f"Bearer {key}", "host": "node-1:8710"}
            assert post(agent.url, "/orders", content=b"1", headers=shown).status_code == status
        assert post(agent.url, "/orders", content=b"1").status_code == 401
        for path in ("/healthz", "/readyz", "/metrics"):
            assert httpx.get(f"{agent.url}{path}", headers={"host": "node-1"}, **PLAIN).status_code == 200


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "has no key"),
        (["--url", "nonsense"], "is not the http or https address"),
        (["--spool", "/proc/none"], "cannot keep messages in"),
        (["--socket", "/proc/none/agent.sock"], "cannot listen on"),
        (["--max-bytes", "0"], "max_bytes"),
    ],
)
def test_what_cannot_be_is_said_at_the_start(tmp_path: Path, options: list[str], says: str) -> None:
    started = run_bus("agent", "--port", 0, "--spool", tmp_path / "spool", *options)
    assert started.returncode == 1
    assert says in started.stderr


def test_a_port_in_use_is_said(agent: AgentProcess, tmp_path: Path) -> None:
    started = run_bus("agent", "--port", agent.port, "--spool", tmp_path / "spool")
    assert (started.returncode, "in use" in started.stderr) == (1, True)


def test_how_long_messages_have_waited_is_told_of_the_agent(bus: BusProcess, tmp_path: Path) -> None:
    bus.admin.destination("orders")
    with AgentProcess(tmp_path, bus.url, name="agent-of-node-1") as agent:
        post(agent.url, "/orders", content=b"1", headers={"bus-source": "shop"})
        wanted = 'bus_producer_records{source="agent-of-node-1"}'

        def figures() -> str:
            return httpx.get(f"{bus.url}/metrics", **PLAIN).text

        wait_until(lambda: wanted in figures(), within=20, what="its queue is told of")
        assert 'bus_messages_accepted_total{destination="orders",source="shop"} 1.0' in figures()


def test_it_announces_itself_to_people(tmp_path: Path) -> None:
    child = Child(bus_command("agent", "--port", 0, "--spool", tmp_path / "spool"), log=tmp_path / "log")
    with child.start():
        wait_until(lambda: "sent to http://127.0.0.1:8700" in child.output(), within=20, what="it says what it does")
        assert child.stop() == 0
    assert json.dumps(child.output()).count("agent on http://127.0.0.1:") == 1
