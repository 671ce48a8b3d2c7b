"""The number of sockets, by owner."""

from __future__ import annotations

import pytest

from bus.security.clients import networks_of
from bus.serving.sockets import PAGES, Sockets

TARGET = f"{PAGES}socket.io/?EIO=4".encode()
PROXY = "10.0.0.1"


def through(*clients: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"x"), *((b"x-forwarded-for", client.encode()) for client in clients)]


def refused(sockets: Sockets, peer: str, *clients: str, target: bytes = TARGET) -> int:
    """Return the status of the refusal, 0 for a socket that is counted now."""
    answer = sockets.refusal(target, through(*clients), peer)
    if answer is None:
        sockets.enter(sockets.holder(through(*clients), peer))
    return answer.status if answer else 0


def test_there_are_so_many_in_all() -> None:
    sockets = Sockets(3, 2, (), has_pages=True)
    assert [refused(sockets, f"192.0.2.{number}") for number in range(4)] == [0, 0, 0, 503]
    sockets.leave("192.0.2.1")
    assert refused(sockets, "192.0.2.9") == 0


@pytest.mark.parametrize(
    ("one", "same"),
    [("192.0.2.1", "192.0.2.1"), ("2001:db8::1", "2001:db8::ffff:2"), ("::ffff:192.0.2.1", "192.0.2.1")],
)
def test_there_are_so_many_of_one_customer(one: str, same: str) -> None:
    sockets = Sockets(9, 2, (), has_pages=True)
    assert [refused(sockets, peer) for peer in (one, same, one, same)] == [0, 0, 429, 429]
    assert refused(sockets, "2001:db8:0:1::1") == 0
    assert refused(sockets, "::ffff:192.0.2.2") == 0


def test_a_trusted_proxy_says_for_whom_and_nobody_else_does() -> None:
    sockets = Sockets(9, 1, networks_of(PROXY), has_pages=True)
    assert [refused(sockets, PROXY, client) for client in ("192.0.2.1", "192.0.2.2", "192.0.2.1")] == [0, 0, 429]
    assert [refused(sockets, "192.0.2.7", client) for client in ("192.0.2.8", "192.0.2.9")] == [0, 429]


@pytest.mark.parametrize("target", [b"/", b"/admin/", b"/admin/_nicegui_ws", b"/x?/admin/_nicegui_ws/", b"*"])
def test_there_are_none_elsewhere(target: bytes) -> None:
    assert refused(Sockets(9, 9, (), has_pages=True), "192.0.2.1", target=target) == 404
    assert refused(Sockets(9, 9, (), has_pages=False), "192.0.2.1") == 404
