"""Two receivers of one port accept a repetition once, also when one of them dies or refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from bus.errors import Conflict, PeerUnavailable, SpoolFull
from bus.http.draft import Draft
from bus.http.messages import AcceptedMessage
from bus.ports.claims import ClaimResult
from bus.security.principals import ANYONE
from bus.stores.sqlite.claims import SharedClaims
from receiver.duplicates import name_of
from receiver.placement import Place
from tests.harness.gated_spool import GatedSpool, once
from tests.unit.receiver.receiver_world import World


@pytest.fixture
def claims(tmp_path: Path) -> Iterator[list[SharedClaims]]:
    made = [SharedClaims(tmp_path, owner, World().clock.now() - 1000) for owner in "ab"]
    yield made
    for one in made:
        one.close()


@pytest.fixture
async def worlds(claims: list[SharedClaims]) -> list[World]:
    made = []
    for one in claims:
        made.append(World())
        made[-1].claims = one
        made[-1].restart()
        await made[-1].destination()
    return made


async def test_it_is_recognised_by_id_and_by_key_and_another_body_is_a_conflict(worlds: list[World]) -> None:
    here, there = worlds
    one = here.id()
    assert not (await here.send(id=one)).duplicate
    assert (await there.send(id=one)).duplicate
    first = await here.send(idempotency_key="k")
    assert await there.send(idempotency_key="k") == AcceptedMessage(first.id, True)
    for again in ({"id": one}, {"idempotency_key": "k"}):
        with pytest.raises(Conflict):
            await there.send(b"[]", **again)


async def test_what_one_refuses_the_other_may_accept(worlds: list[World]) -> None:
    here, there = worlds
    one = here.id()
    with pytest.raises(Exception, match="nowhere"):
        await here.send(id=one, destination="nowhere")
    assert not (await there.send(id=one)).duplicate


async def test_what_one_has_stored_of_a_batch_that_it_refused_the_other_knows(worlds: list[World]) -> None:
    here, there = worlds
    await here.destination("ledger")
    full = GatedSpool("publish", "store")
    full.refuse = once(SpoolFull("full"))
    here.ingest._places = lambda _: {"orders": Place(here.spool, None), "ledger": Place(full, None)}
    batch = [Draft(code, b"1", idempotency_key="k") for code in ("orders", "ledger")]
    with pytest.raises(SpoolFull):
        await here.ingest.accept(batch, ANYONE)
    assert await there.ingest.accept_one(batch[0], ANYONE) == AcceptedMessage(here.stored[0].id, True)


async def refused(world: World, **fields: str) -> None:
    sending = asyncio.create_task(world.send(**fields))
    await world.clock.advance(1.5)
    assert not sending.done()
    await world.clock.advance(1)
    with pytest.raises(PeerUnavailable):
        await sending


@pytest.mark.parametrize("name", ["id", "idempotency_key"])
async def test_of_one_that_died_its_next_life_says_what_it_accepted(
    worlds: list[World], claims: list[SharedClaims], name: str
) -> None:
    here, there = worlds
    fields, lost = {name: here.id()}, {name: here.id()}
    claims[0].settle = lambda *_: None  # type: ignore[method-assign]
    here.store.down = True  # what it accepts is on its disk alone
    first = await here.send(**fields)
    here.spool.refuse = once(SpoolFull("full"))
    with pytest.raises(SpoolFull):
        await here.send(**lost)
    await refused(there, **fields)
    here.restart()
    await here.ingest.recover([(here.spool, "store")])
    assert await there.send(**fields) == AcceptedMessage(first.id, True)
    assert await here.send(**fields) == AcceptedMessage(first.id, True)
    assert not (await there.send(**lost)).duplicate


async def test_of_one_that_does_not_come_back_the_store_is_asked(
    worlds: list[World], claims: list[SharedClaims]
) -> None:
    there, one = worlds[1], worlds[1].id()
    claims[0].claim([name_of(one)], ())
    await refused(there, id=one)
    await there.clock.advance(30)
    sending = asyncio.create_task(there.send(id=one))
    await there.clock.advance(2.1)
    assert not (await sending).duplicate


class Locked:
    """Claims that nobody gets at."""

    def claim(self, names: Collection[bytes], _: Collection[bytes]) -> ClaimResult:
        return ClaimResult({}, storing=names, is_locked=True)

    def recover(self, accepted: Mapping[bytes, bytes]) -> None:
        raise AssertionError(f"{accepted} are not of an earlier life")

    def settle(self, accepted: Mapping[bytes, bytes], refused: Collection[bytes]) -> None:
        raise AssertionError(f"{accepted} and {refused} were not claimed")


async def test_claims_that_nobody_gets_at_hold_a_message_up_for_a_moment_only(worlds: list[World]) -> None:
    world = worlds[0]
    world.claims = Locked()
    world.restart()
    one = world.id()
    sending = asyncio.create_task(world.send(id=one))
    await world.clock.advance(2.1)
    assert not (await sending).duplicate
    assert (await world.send(id=one)).duplicate
