"""Single messages over one connection of a running bus, alone and among everything else."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus.domain.identity import id_time
from tests.harness.bus_process import BusProcess
from tests.harness.raw_http import Answer, answers, asked, connected, read_all
from tests.harness.waiting import wait_until

HOST = b"host: 127.0.0.1\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"


def post(body: bytes, *fields: bytes) -> bytes:
    own = b"".join(field + b"\r\n" for field in (b"content-length: %d" % len(body), *fields))
    return b"POST /v1/messages/d HTTP/1.1\r\n" + HOST + own + b"\r\n" + body


LAST = post(b"last", b"connection: close")


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusProcess]:
    data: Path = tmp_path_factory.mktemp("posts") / "data"
    with BusProcess(data) as process:
        process.admin.destination("d")
        yield process
        assert "Traceback" not in process.child.log.read_text()


def ids(found: list[Answer]) -> list[str]:
    assert [one.status for one in found] == [202] * len(found)
    return [json.loads(one.content)["id"] for one in found]


def next_answer(peer: socket.socket) -> Answer:
    (found,) = answers(peer.recv(65_536))
    return found


def has_trace(bus: BusProcess, message: str) -> bool:
    return bus.admin.call("GET", f"/api/v1/messages/{message}").is_success


def test_messages_one_by_one_have_an_answer_and_a_trace_each(bus: BusProcess) -> None:
    with connected(bus) as peer:
        accepted = []
        for number in range(20):
            peer.sendall(post(b"%d" % number))
            accepted += ids([next_answer(peer)])
    assert len(set(accepted)) == 20
    for message in accepted:
        wait_until(lambda message=message: has_trace(bus, message), within=60, what="the trace")


def test_messages_behind_each_other_are_answered_in_order(bus: BusProcess) -> None:
    found = asked(bus, b"".join(post(b"%d" % number) for number in range(10)) + LAST)
    assert len(set(ids(found))) == 11
    assert [id_time(one) for one in ids(found)] == sorted(id_time(one) for one in ids(found))
    assert found[-1].headers["connection"] == "close"


def test_a_connection_carries_everything_else_as_well(bus: BusProcess) -> None:
    batch = json.dumps({"destination": "d", "body": 1}).encode()
    many = (
        b"POST /v1/messages HTTP/1.1\r\n" + HOST + b"content-type: application/x-ndjson\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(batch), batch)
    )
    with connected(bus) as peer:
        statuses = []
        for request in (post(b"1"), HEALTH, post(b"2", b"idempotency-key: k"), post(b"2", b"idempotency-key: k"), many):
            for again in (request, post(b"between")):
                peer.sendall(again)
                statuses.append(next_answer(peer).status)
        peer.sendall(post(b"3", b"bus-sent-at: soon"))
        next_answer(peer).problem(422)
        peer.sendall(LAST)
        assert [one.status for one in answers(read_all(peer))] == [202]
    assert statuses == [202, 202, 200, 202, 202, 202, 202, 202, 200, 202]


def test_head_and_body_may_come_apart(bus: BusProcess) -> None:
    head, _, body = post(b"x" * 300_000).partition(b"\r\n\r\n")
    with connected(bus) as peer:
        for _ in range(3):
            peer.sendall(head + b"\r\n\r\n")
            peer.sendall(body)
            ids([next_answer(peer)])


def test_a_bus_that_stops_answers_what_it_took(tmp_path: Path) -> None:
    with BusProcess(tmp_path / "data") as process:
        process.admin.destination("d")
        peers = [connected(process) for _ in range(8)]
        for peer in peers:
            peer.sendall(post(b"1"))
            ids([next_answer(peer)])
        for peer in peers[:4]:
            peer.sendall(post(b"2"))
        process.stop()
        for peer in peers:
            with peer:
                found = answers(read_all(peer))
            assert [one.status for one in found] in ([], [202])
