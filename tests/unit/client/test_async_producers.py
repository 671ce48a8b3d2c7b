"""The sender of event loops does what that of threads does, and blocks no loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bus import AsyncBus
from bus.errors import LeaseLost, NotLeader, SpoolClosed, Unconfirmed
from tests.harness.waiting import until
from tests.unit.client.strict_network import Network, network


@pytest.fixture
def net() -> Iterator[Network]:
    with network("one") as made:
        yield made


def bus_of(net: Network, root: Path) -> AsyncBus:
    return AsyncBus("http://one", spool=root, source="shop", transport=net, events=False)


async def nobody(net: Network) -> None:
    await until(lambda: net.owner() == "", within=20, what="nobody has the lease")


async def test_tasks_send_in_the_order_of_their_calls(net: Network, tmp_path: Path) -> None:
    async with bus_of(net, tmp_path) as bus, bus.sender("orders") as sender:
        assert sender.destination == "orders"
        assert sender.epoch
        ids = await asyncio.gather(*(sender.send(number) for number in range(50)))
        assert len(set(ids)) == 50
    assert net.held() == list(range(50))
    assert net.owner() == ""


async def test_it_waits_for_the_lease_while_the_loop_goes_on(net: Network, tmp_path: Path) -> None:
    async with bus_of(net, tmp_path / "one") as first, bus_of(net, tmp_path / "two") as second:
        async with first.sender("orders") as sender:
            with pytest.raises(NotLeader):
                async with second.sender("orders"):
                    pass

            async def follow() -> None:
                async with second.sender("orders", wait=None) as following:
                    await following.send(2)

            task = asyncio.create_task(follow())
            await asyncio.sleep(0)
            await sender.send(1)
        await task
    assert net.held() == [1, 2]


async def test_a_task_that_is_cancelled_while_it_asks_leaves_no_lease(net: Network, tmp_path: Path) -> None:
    async with bus_of(net, tmp_path) as bus:

        async def send() -> None:
            async with bus.sender("orders"):
                raise AssertionError

        for turns in range(6):
            task = asyncio.create_task(send())
            for _ in range(turns):
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises((asyncio.CancelledError, AssertionError, NotLeader)):
                await task
            await nobody(net)
        async with bus.sender("orders", wait=10) as sender:
            await sender.send(1)


async def test_a_message_that_is_not_confirmed_is_kept(net: Network, tmp_path: Path) -> None:
    net.set_copies(1)
    async with bus_of(net, tmp_path) as bus:
        async with bus.sender("orders") as sender:
            with pytest.raises(Unconfirmed):
                await sender.send(1, timeout=0.1)
            assert not await sender.close(0.1)
            net.set_copies(3)
        assert await bus.flush(10)
        await nobody(net)
        assert net.held() == [1]


async def test_a_lost_lease_ends_sending(net: Network, tmp_path: Path) -> None:
    async with bus_of(net, tmp_path) as bus, bus.sender("orders") as sender:
        await sender.send(1)
        net.give_up()
        with pytest.raises(LeaseLost):
            await sender.send(2)
        with pytest.raises(NotLeader):
            await sender.send(3)
        assert (bus.pending, bus.rejected) == (0, 1)


async def test_a_sender_that_has_not_begun_or_has_ended_sends_nothing(net: Network, tmp_path: Path) -> None:
    async with bus_of(net, tmp_path) as bus:
        sender = bus.sender("orders")
        with pytest.raises(SpoolClosed, match="not begun"):
            await sender.send(1)
        assert await sender.close()
        async with sender:
            await sender.send(2)
        with pytest.raises(SpoolClosed):
            await sender.send(3)
    assert net.held() == [2]
