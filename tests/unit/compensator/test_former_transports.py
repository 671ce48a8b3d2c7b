"""A transport that a destination has left goes when its time is over and nothing is on it."""

from __future__ import annotations

import pytest

from bus.domain.destination import FORMER_KEPT, FormerTransport, TransportName
from bus.domain.message import encode_message
from bus.ports.transport import Lag, Outgoing
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
    await world.old.publish([Outgoing(sent, encode_message(sent))])
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


async def test_the_store_may_be_away(world: World) -> None:
    world.clock.jump(FORMER_KEPT)
    world.store.down = True
    await world.former_transports.step()
    assert former(world) == [OLD]
    world.store.down = False
    await world.former_transports.step()
    assert former(world) == []
