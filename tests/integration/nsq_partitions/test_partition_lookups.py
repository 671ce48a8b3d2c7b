"""Lookups at nsqlookupds: which, how often, and the effect of invalid responses."""

from __future__ import annotations

import pytest

from bus.transports.nsq.partitions.layout import partition_of
from tests.doubles.youzan.running import YouzanDouble
from tests.harness.waiting import until
from tests.integration.nsq_partitions.partition_world import (
    KEYS,
    config,
    first_deliveries,
    opened,
    outgoing,
    publish,
    wanted,
)

CONSUMING = {"access": "r"}
PRODUCING = {"access": "w", "metainfo": "true"}


async def test_producers_ask_for_writing_with_metadata_and_consumers_for_reading_without(
    own: YouzanDouble, code: str
) -> None:
    async with opened(config(own)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(10)))
        await first_deliveries(consumer, range(10))
        for lookupd in (1, 2):  # the second one is known from the list of the first
            asked = [one["query"] for one in own.asked(lookupd, "/lookup")]
            assert {"topic": code} | CONSUMING in asked
            assert {"topic": code} | PRODUCING in asked
            assert all(one in ({"topic": code} | CONSUMING, {"topic": code} | PRODUCING) for one in asked)
        assert own.asked(1, "/listlookup")


async def test_a_process_that_only_consumes_asks_for_reading_alone(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=2)
    shared.forget()
    async with opened(config(shared)) as transport:
        await transport.consume(code, "billing")
        await until(lambda: len(_subscribed(shared, code)) == 2, what="both partitions are subscribed to")
        asked = [one["query"] for one in shared.asked(1, "/lookup") if one["query"]["topic"] == code]
        assert asked
        assert all(one == {"topic": code} | CONSUMING for one in asked)


async def test_each_partition_has_a_connection_of_its_own(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=4)
    async with opened(config(shared)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        for begin in range(0, 60, 20):
            await publish(transport, outgoing(code, range(begin, begin + 20)))
        await first_deliveries(consumer, range(60))
        assert sorted(_subscribed(shared, code)) == ["0", "1", "2", "3"]
        published = {
            (nsqd, one["connection"], one["params"][1])
            for nsqd in shared.nsqds
            for one in shared.commands(nsqd, "MPUB")
            if one["params"][0] == code
        }
        assert len(published) == 4
        assert len({partition for _, _, partition in published}) == 4


async def test_consumers_may_be_limited_to_some_partitions(shared: YouzanDouble, code: str) -> None:
    shared.create_topic(code, partitions=4)
    settings = [config(shared, read_partitions=frozenset(some)) for some in ({0, 2}, {1, 3})]
    async with opened(settings[0]) as one, opened(settings[1]) as another:
        await one.ensure(*wanted(code))
        consumers = [await transport.consume(code, "billing") for transport in (one, another)]
        await publish(one, outgoing(code, range(20)))
        shares = [[n for n in range(20) if partition_of(KEYS[n], 4) in some] for some in ({0, 2}, {1, 3})]
        for consumer, share in zip(consumers, shares, strict=True):
            assert sorted(n for _, n in await first_deliveries(consumer, share)) == share


@pytest.mark.parametrize("fault", ["garbage", "half", "cut", "500"])
async def test_an_nsqlookupd_that_answers_nonsense_is_asked_again_and_then_last(
    own: YouzanDouble, code: str, fault: str
) -> None:
    own.set_lookupd(2, fault=fault)
    async with opened(config(own)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(20)))
        await first_deliveries(consumer, range(20))
        await until(
            lambda: transport.conditions().get(f"nsqlookupd {own.lookups[1]}"), what="it is told that one is ill"
        )
        asked = len(own.asked(2, "/lookup"))
        assert asked >= 2
        seen = len(own.asked(1, "/lookup"))
        await until(lambda: len(own.asked(1, "/lookup")) >= seen + 4, what="the other one is asked on")
        assert len(own.asked(2, "/lookup")) == asked


async def test_a_slow_nsqlookupd_holds_nobody_up_and_is_asked_last(own: YouzanDouble, code: str) -> None:
    own.set_lookupd(2, delay=30.0)
    async with opened(config(own)) as transport:
        await transport.ensure(*wanted(code))
        await publish(transport, outgoing(code, range(20)))
        assert str(transport.conditions()[f"nsqlookupd {own.lookups[1]}"]) == "it answers later than others"


async def test_without_any_nsqlookupd_what_was_known_goes_on(own: YouzanDouble, code: str) -> None:
    async with opened(config(own)) as transport:
        await transport.ensure(*wanted(code))
        consumer = await transport.consume(code, "billing")
        await publish(transport, outgoing(code, range(20)))
        await first_deliveries(consumer, range(20))
        for lookupd in (1, 2):
            own.set_lookupd(lookupd, running=False)
        await until(lambda: transport.conditions()[f"nsqlookupd {own.lookups[0]}"], what="it is told that it is away")
        await publish(transport, outgoing(code, range(20, 60)))
        await first_deliveries(consumer, range(20, 60))
        own.set_lookupd(1, running=True)
        own.move_leader(code, 0, next(n for n in own.nsqds if n != own.leader(code, 0)))
        await publish(transport, outgoing(code, range(60, 100)))
        await first_deliveries(consumer, range(60, 100))


def _subscribed(double: YouzanDouble, code: str) -> list[str]:
    """Return the partitions that were subscribed to, each as often as it was."""
    return [
        one["params"][2]
        for nsqd in double.nsqds
        for one in double.commands(nsqd, "SUB", "SUB_ORDERED")
        if one["params"][0] == code
    ]
