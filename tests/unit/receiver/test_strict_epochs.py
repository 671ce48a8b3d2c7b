"""What a group of brokers took is stored with the epoch by which the chain tells where it is."""

from __future__ import annotations

from tests.unit.receiver.strict_world import receivers


async def test_messages_of_one_call_have_the_epochs_of_the_groups_that_took_them() -> None:
    async with receivers("one") as ((here,), groups):
        assert [one["status"] for one in await here.batch(1)] == ["accepted"]
        (first,) = (await here.chain()).consume
        groups["a"].set_copies(2)
        assert [one["status"] for one in await here.batch(2, 3)] == ["accepted", "accepted"]
        second = (await here.chain()).consume[-1]
        assert (first.group, second.group) == ("a", "b")
        assert {one.body: one.epoch for one in here.stored} == {
            b"1": first.epoch,
            b"2": second.epoch,
            b"3": second.epoch,
        }


async def test_messages_of_other_destinations_have_none() -> None:
    async with receivers("one") as ((here,), _):
        await here.destination("plain", "billing")
        await here.batch(1, code="plain")
        assert [one.epoch for one in here.stored] == [0]
