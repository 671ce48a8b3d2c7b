"""A transport that a destination has left goes when its time is over and nothing is on it."""

from __future__ import annotations

import pytest

from bus.domain.destination import FORMER_KEPT, Destination, FormerTransport, TransportName
from bus.domain.message import encode_message
from bus.domain.subscription import Subscription
from bus.ports.transport import Lag, OutgoingMessage
from bus.testing.transport import MemoryTransport
from bus.testing.writes import DESTINATION, message
from bus.transports.router import TransportRouter
from compensator.former_transports import FormerTransports
from tests.unit.compensator.compensator_world import World

OLD = TransportName.NSQ


@pytest.fixture
async def world() -> World:
    found = World()
    found.old = MemoryTransport(OLD)
    found.router = TransportRouter([found.transport, found.old], found.clock)
    found.registry.listen(found.router.apply)
    found.former_transports = FormerTransports(found.registry, found.router, found.clock)
    await found.destination(transport=OLD)
    await found.subscription()
    await found.destination(former=(FormerTransport(OLD, found.clock.now() + FORMER_KEPT),))
    return found


def former(world: World) -> list[TransportName]:
    return [transport.transport for transport in world.registry.destination(DESTINATION).former]


async def test_an_empty_transport_goes_when_its_time_is_over(world: World) -> None:
    await world.former_transports.step()
    assert former(world) == [OLD]
    world.clock.jump(FORMER_KEPT)
    await world.former_transports.step()
    assert former(world) == []
    assert not world.old.lags()


async def test_a_transport_that_holds_something_or_cannot_be_asked_stays(world: World) -> None:
    sent = message()
    await world.old.publish([OutgoingMessage(sent, encode_message(sent))])
    world.clock.jump(FORMER_KEPT)
    await world.former_transports.step()
    assert former(world) == [OLD]
    consumer = await world.old.consume(DESTINATION, "billing")
    consumer.ack(await consumer.receive(1))
    world.old.unreachable = True
    await world.former_transports.step()
    assert former(world) == [OLD]
    world.old.unreachable = False
    await world.former_transports.step()
    assert former(world) == []


async def test_a_transport_that_may_hold_something_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.old, "lags", lambda: {(DESTINATION, "billing"): Lag(0, 0)})
    world.clock.jump(FORMER_KEPT)
    await world.former_transports.step()
    assert former(world) == [OLD]


async def test_what_transports_hold_is_read_once_for_all_destinations_that_stay(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = (FormerTransport(OLD, world.clock.now()),)
    codes = [DESTINATION, *(f"d{number}" for number in range(20))]
    destinations = [Destination(code=code, former=left) for code in codes[1:]]
    subscriptions = [Subscription(destination=code, name="billing", url="http://a.example/") for code in codes[1:]]
    await world.registry.put_all(destinations, subscriptions)
    world.clock.jump(FORMER_KEPT)
    reads: list[int] = []
    monkeypatch.setattr(world.old, "lags", lambda: reads.append(1) or {(code, "billing"): Lag(1, 1) for code in codes})
    await world.former_transports.step()
    assert len(reads) == 1
    monkeypatch.undo()
    await world.former_transports.step()
    assert not any(found.former for found in world.registry.catalog.destinations.values())


async def test_the_store_may_be_away(world: World) -> None:
    world.clock.jump(FORMER_KEPT)
    world.store.down = True
    await world.former_transports.step()
    assert former(world) == [OLD]
    world.store.down = False
    await world.former_transports.step()
    assert former(world) == []
