"""In which order addresses are tried, and which connection counts."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from bus.network.happy_eyeballs import LateAddresses, connect_first

NEVER = 3600.0
SIX, FOUR = ["2001:db8::1", "2001:db8::2", "2001:db8::3"], ["192.0.2.1", "192.0.2.2"]


class Hosts:
    """Addresses that answer once a test says so, or fail."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.answers: dict[str, asyncio.Future[socket.socket]] = {}
        self.open: list[socket.socket] = []

    def socket(self) -> socket.socket:
        self.open.append(socket.socket())
        return self.open[-1]

    async def connect(self, address: str) -> socket.socket:
        self.tried.append(address)
        return await self.answers.setdefault(address, asyncio.get_running_loop().create_future())

    async def both_tried(self) -> None:
        while len(self.tried) < 2:  # noqa: ASYNC110 - what it waits for has no event
            await asyncio.sleep(0)

    def answer(self, address: str, answer: socket.socket | Exception) -> None:
        future = self.answers.setdefault(address, asyncio.get_running_loop().create_future())
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    made = Hosts()
    yield made
    with contextlib.ExitStack() as stack:
        for one in made.open:
            stack.callback(one.close)


async def test_the_first_that_answers_counts_though_others_are_silent(hosts: Hosts) -> None:
    connected = hosts.socket()
    hosts.answer("c", connected)
    reached = await connect_first(["a", "b", "c", "d"], hosts.connect, 0.0)
    assert reached == (connected, "c", ["a", "b"])
    assert hosts.tried == ["a", "b", "c"]
    assert all(hosts.answers[silent].cancelled() for silent in "ab")


async def test_a_failure_starts_the_next_at_once(hosts: Hosts) -> None:
    hosts.answer("a", ConnectionRefusedError())
    connected = hosts.socket()
    hosts.answer("b", connected)
    assert (await connect_first(["a", "b"], hosts.connect, NEVER)).address == "b"


async def test_one_that_answers_in_time_leaves_the_others_alone(hosts: Hosts) -> None:
    hosts.answer("a", hosts.socket())
    assert (await connect_first(["a", "b"], hosts.connect, NEVER)).late == []
    assert hosts.tried == ["a"]


async def test_an_address_may_answer_after_the_next_was_tried(hosts: Hosts) -> None:
    connecting = asyncio.ensure_future(connect_first(["a", "b"], hosts.connect, 0.0))
    await hosts.both_tried()
    hosts.answer("b", OSError("unreachable"))
    await asyncio.sleep(0)
    hosts.answer("a", hosts.socket())
    assert (await connecting).address == "a"


async def test_of_two_that_answer_at_once_one_is_closed(hosts: Hosts) -> None:
    connecting = asyncio.ensure_future(connect_first(["a", "b"], hosts.connect, 0.0))
    await hosts.both_tried()
    first, second = hosts.socket(), hosts.socket()
    hosts.answer("a", first)
    hosts.answer("b", second)
    assert (await connecting).sock is first
    assert (first.fileno() >= 0, second.fileno()) == (True, -1)


async def test_when_none_answers_the_last_failure_counts(hosts: Hosts) -> None:
    hosts.answer("a", OSError("unreachable"))
    hosts.answer("b", ConnectionRefusedError("nobody listens"))
    with pytest.raises(ConnectionRefusedError, match="nobody listens"):
        await connect_first(["a", "b"], hosts.connect, NEVER)


async def test_cancelling_ends_all_attempts(hosts: Hosts) -> None:
    connecting = asyncio.ensure_future(connect_first(["a", "b"], hosts.connect, 0.0))
    await hosts.both_tried()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    assert all(answer.cancelled() for answer in hosts.answers.values())


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        ([], []),
        ([*SIX, *FOUR], [SIX[0], FOUR[0], SIX[1], FOUR[1], SIX[2]]),
        ([*FOUR, SIX[0]], [FOUR[0], SIX[0], FOUR[1]]),
        (FOUR, FOUR),
        ([f"192.0.2.{number}" for number in range(99)], [f"192.0.2.{number}" for number in range(16)]),
    ],
)
def test_families_alternate(addresses: list[str], expected: list[str]) -> None:
    assert LateAddresses(lambda: 0.0).order(addresses, 443) == expected


def test_late_addresses_are_last_for_ten_minutes_on_their_port() -> None:
    now = 0.0
    late = LateAddresses(lambda: now)
    late.note(FOUR[0], 443, [SIX[0]])
    assert late.order([SIX[0], *FOUR], 443) == [*FOUR, SIX[0]]
    assert late.order([SIX[0], *FOUR], 80) == [SIX[0], *FOUR]
    now = 600.0
    assert late.order([SIX[0], *FOUR], 443) == [SIX[0], *FOUR]


def test_a_late_address_that_answers_is_late_no_more() -> None:
    late = LateAddresses(lambda: 0.0)
    late.note(FOUR[0], 443, [SIX[0]])
    late.note(SIX[0], 443, FOUR)
    assert late.order([*FOUR, SIX[0]], 443) == [SIX[0], *FOUR]


def test_so_many_late_addresses_are_remembered() -> None:
    late = LateAddresses(lambda: 0.0)
    for number in range(10_000):
        late.note("192.0.2.1", number, ["192.0.2.2"])
    assert len(late._until) == 4096
