"""Upgrades to WebSockets by who may not have one: each is answered at once, closed, and costs nobody else anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.harness.bus_process import BusProcess
from tests.harness.raw_http import asked, connected
from tests.harness.waiting import wait_until

OF_ONE_ADDRESS = 3
PAGES = b"/admin/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
HANDSHAKE = (
    b"host: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


def upgrade(path: bytes, more: bytes = b"", body: bytes = b"", method: bytes = b"GET") -> bytes:
    return method + b" " + path + b" HTTP/1.1\r\n" + HANDSHAKE + more + b"\r\n" + body


REFUSED = {
    "elsewhere": (upgrade(b"/healthz"), 404),
    "at the receiver": (upgrade(b"/v1/messages/d", b"content-length: 2\r\n", b"{}", b"POST"), 400),
    "nowhere": (upgrade(b"/nowhere"), 404),
    "another page": (upgrade(b"/admin/"), 404),
    "with a body": (upgrade(PAGES, b"content-length: 2\r\n", b"{}"), 400),
    "with a length": (upgrade(PAGES, b"content-length: 2\r\n"), 400),
    "with chunks": (upgrade(PAGES, b"transfer-encoding: chunked\r\n", b"0\r\n\r\n"), 400),
    "as a POST": (upgrade(PAGES, method=b"POST"), 400),
    "with a long field": (upgrade(PAGES, b"x: " + b"y" * 9_000 + b"\r\n"), 431),
    "with a long target": (upgrade(PAGES + b"&x=" + b"y" * 9_000), 431),
    "with many fields": (upgrade(PAGES, b"x: y\r\n" * 200), 431),
}


@pytest.fixture(scope="module")
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusProcess]:
    data: Path = tmp_path_factory.mktemp("sockets") / "data"
    env = {"BUS_SOCKETS_PER_ADDRESS": str(OF_ONE_ADDRESS)}
    with BusProcess(data, env=env) as process:
        yield process


@pytest.mark.parametrize(("request_", "status"), REFUSED.values(), ids=REFUSED)
def test_an_upgrade_that_nobody_needs_is_refused_and_closed(bus: BusProcess, request_: bytes, status: int) -> None:
    (answer,) = asked(bus, request_)
    answer.problem(status)
    assert answer.headers["connection"] == "close"


def test_an_upgrade_behind_a_request_costs_that_nothing(bus: BusProcess) -> None:
    first, *others = asked(bus, b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + upgrade(PAGES))
    assert first.status == 200
    assert [other.status for other in others] in ([], [400])


def test_one_address_holds_so_many_sockets_and_gets_others_when_it_gave_them_up(bus: BusProcess) -> None:
    with ExitStack() as held:
        for _ in range(OF_ONE_ADDRESS):
            held.enter_context(opened(bus))
        with pytest.raises(InvalidStatus) as refused, opened(bus):
            pass
        assert refused.value.response.status_code == 429
        assert int(refused.value.response.headers["retry-after"]) >= 1
    wait_until(lambda: opens(bus), within=30, what="another socket may be opened")


def test_none_of_them_spoils_the_end(bus: BusProcess) -> None:
    with ExitStack() as held:
        for request_, _ in REFUSED.values():
            peer = held.enter_context(connected(bus))
            peer.sendall(request_)
        held.enter_context(opened(bus))
        assert bus.stop() == 0
    assert "Traceback" not in bus.child.log.read_text()


def opened(bus: BusProcess) -> ClientConnection:
    """Open a socket as a page of ours does."""
    url = bus.url.replace("http://", "ws://") + PAGES.decode()
    return connect(url, origin=Origin(bus.url), open_timeout=30, proxy=None)


def opens(bus: BusProcess) -> bool:
    try:
        with opened(bus):
            return True
    except InvalidStatus:
        return False
