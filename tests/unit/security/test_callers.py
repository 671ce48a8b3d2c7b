"""Limits of callers without a valid key, and which connections make room for others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bus.http.asgi import answer
from bus.http.policies import KNOWN
from bus.network.descriptors import Descriptors
from bus.security.callers import Callers, Share
from bus.security.clients import networks_of
from tests.harness.wire import JumpingLoop, jumping

LIMIT = 128 + 2 * 16
"""Open files that leave 16 connections in each direction."""


class One:
    """A connection; ``since`` is as of a policy's."""

    def __init__(self, since: float | None = 0.0) -> None:
        self.idle_since = since
        self.is_dropped = False

    def drop(self) -> None:
        self.is_dropped = True


def made(connections: int = 3, requests: float = 10.0, limit: int = 1_000_000) -> tuple[Callers, Descriptors]:
    descriptors = Descriptors(limit, lambda: 0.0)
    share = Share(requests, connections)
    return Callers(share, descriptors, lambda headers: b"key" in dict(headers), networks_of("10.0.0.0/8")), descriptors


def connected(callers: Callers, *connections: One, peer: str = "192.0.2.1") -> list[bool]:
    """Return which are open once all are connected."""
    for one in connections:
        callers.add(one, peer)
    return [not one.is_dropped for one in connections]


def test_one_more_of_an_address_closes_the_one_that_waited_longest() -> None:
    callers, descriptors = made()
    of_another = One(0.0)
    assert connected(callers, of_another, peer="192.0.2.2") == [True]
    assert connected(callers, One(3.0), One(1.0), One(None), One(4.0)) == [True, False, True, True]
    assert not of_another.is_dropped
    assert descriptors.trouble == ""


def test_none_is_closed_while_its_request_is_answered() -> None:
    callers, _ = made()
    assert connected(callers, One(None), One(None), One(None), One(9.0)) == [True, True, True, False]


def test_a_connection_with_a_key_does_not_count_for_its_address() -> None:
    callers, _ = made()
    known = [One(0.0) for _ in range(5)]
    for one in known:
        callers.add(one, "192.0.2.1")
        callers.mark_known(one)
    assert connected(callers, One(1.0), One(2.0), One(3.0)) == [True, True, True]
    assert not any(one.is_dropped for one in known)


@pytest.mark.parametrize(("peer", "open_"), [("2001:db8::", 3), ("10.0.0.", 9), ("", 9)])
def test_a_network_of_ipv6_is_one_address_and_a_proxy_is_none(peer: str, open_: int) -> None:
    callers, _ = made()
    made_ = [One(float(number)) for number in range(9)]
    for number, one in enumerate(made_):
        callers.add(one, f"{peer}{number}" if peer else "")
    assert sum(not one.is_dropped for one in made_) == open_


def test_one_more_than_there_are_descriptors_for_closes_strangers_and_then_the_idle() -> None:
    callers, descriptors = made(connections=100, limit=LIMIT)
    known = [One(float(number)) for number in range(14)]
    for one in known:
        callers.add(one, "192.0.2.1")
        callers.mark_known(one)
    strangers = [One(50.0), One(60.0)]
    assert connected(callers, *strangers) == [True, True]
    newcomers = [One(70.0 + number) for number in range(3)]
    for one in newcomers:
        callers.add(one, "192.0.2.3")
        callers.mark_known(one)
    assert [one.is_dropped for one in strangers] == [True, True]
    assert [one.is_dropped for one in known] == [True] + [False] * 13
    assert not any(one.is_dropped for one in newcomers)
    assert "160" in str(descriptors.trouble)


def test_a_connection_that_is_gone_makes_room() -> None:
    callers, _ = made()
    gone = [One() for _ in range(3)]
    connected(callers, *gone)
    for one in gone:
        callers.remove(one)
        callers.remove(one)
    assert connected(callers, One(1.0), One(2.0), One(3.0)) == [True, True, True]


def test_an_address_opens_some_connections_at_once_and_more_as_the_seconds_go_by() -> None:
    async def opened(_loop: JumpingLoop) -> list[int]:
        callers, _ = made(connections=3, requests=10.0)
        found = []
        for seconds in (0.1, 0.2, 60.0):
            await asyncio.sleep(seconds)
            found.append(sum(callers.admits("192.0.2.1") for _ in range(9)))
        assert callers.admits("192.0.2.2")
        assert all(callers.admits("10.0.0.1") for _ in range(9))
        return found

    assert jumping(opened) == [3, 2, 3]


def test_a_connection_with_a_key_is_given_back_once() -> None:
    async def opened(_loop: JumpingLoop) -> int:
        callers, _ = made(connections=3)
        assert callers.admits("192.0.2.1")
        one = One()
        callers.add(one, "192.0.2.1")
        callers.mark_known(one)
        callers.mark_known(one)
        return sum(callers.admits("192.0.2.1") for _ in range(9))

    assert jumping(opened) == 3


def test_where_everybody_is_known_any_number_of_connections_is_opened() -> None:
    callers = Callers(Share(10.0, 3), Descriptors(1_000_000, lambda: 0.0), lambda _headers: True)
    assert all(callers.admits("192.0.2.1") for _ in range(99))


async def _asked(loop: JumpingLoop, count: int, *, known: bool, peers: int = 1) -> list[tuple[float, int]]:
    """Make requests at once; return when each was answered, and how."""
    callers, _ = made(requests=10.0)
    found: list[tuple[float, int]] = []

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await answer(send, 200, b"", "text/plain")

    async def ask(number: int) -> None:
        async def send(event: Any) -> None:
            if event["type"] == "http.response.start":
                found.append((round(loop.time(), 1), event["status"]))
                assert event["status"] == 200 or (b"connection", b"close") in event["headers"]

        scope = {"type": "http", "client": (f"192.0.2.{number % peers}", 1), "headers": [], KNOWN: known}
        await callers.limited(application)(scope, None, send)  # type: ignore[arg-type]

    await asyncio.gather(*(ask(number) for number in range(count)))
    return sorted(found)


def test_requests_without_a_key_wait_for_their_share_and_then_are_refused() -> None:
    found = jumping(lambda loop: _asked(loop, 40, known=False))
    assert sum(status == 429 for _, status in found) == 40 - 20
    answered = [at for at, status in found if status == 200]
    assert answered[:10] == [0.0] * 10
    assert answered[10:] == [round(0.1 * number, 1) for number in range(1, 11)]


def test_a_request_with_a_key_waits_for_nothing_and_addresses_share_nothing() -> None:
    assert jumping(lambda loop: _asked(loop, 40, known=True)) == [(0.0, 200)] * 40
    assert jumping(lambda loop: _asked(loop, 40, known=False, peers=4)) == [(0.0, 200)] * 40
