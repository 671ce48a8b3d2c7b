"""Other nsqds than those that are published to: found by their topics, and read as long as they have them."""

from __future__ import annotations

from bus.transports.nsq import parse_nsqd
from bus.transports.nsq.lookup import FoundNode
from tests.integration.nsq.nsq_world import config, eventually, numbers, opened, publish, receive, subscribed
from tests.servers import nsq


async def test_a_topic_that_comes_later_to_a_known_nsqd_is_read_as_well(own: nsq.NsqServers, code: str) -> None:
    mine, other = own.nsqds
    late = f"{code}-late"
    async with opened(config([mine], own.lookupds)) as transport, opened(config([other])) as elsewhere:
        await transport.ensure(*subscribed(code, "billing"))
        await transport.ensure(*subscribed(late, "billing"))
        known, new = await transport.consume(code, "billing"), await transport.consume(late, "billing")
        await elsewhere.ensure(*subscribed(code, "billing"))
        await publish(elsewhere, code, [1])
        assert numbers(await receive(known, 1)) == [1]
        await elsewhere.ensure(*subscribed(late, "billing"))
        await publish(elsewhere, late, [2])
        assert numbers(await receive(new, 1)) == [2]


async def test_an_nsqd_that_is_forgotten_before_it_is_reached_is_read_as_well(own: nsq.NsqServers, code: str) -> None:
    mine, other = own.nsqds
    async with opened(config([other])) as elsewhere, opened(config([mine])) as transport:
        await elsewhere.ensure(*subscribed(code, "billing"))
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        (told,) = parse_nsqd(other.place)
        cluster = transport._cluster
        for found in ({told.tcp: FoundNode(told.http, frozenset({code}))}, {}):
            cluster._lookup.nodes = found
            cluster.review()
        await publish(elsewhere, code, [1])
        assert numbers(await receive(consumer, 1)) == [1]


async def test_an_nsqd_that_the_nsqlookupds_forgot_is_read_as_long_as_it_is_there(
    own: nsq.NsqServers, code: str
) -> None:
    mine, other = own.nsqds
    async with opened(config([other])) as elsewhere, opened(config([mine], own.lookupds)) as transport:
        await elsewhere.ensure(*subscribed(code, "billing"))
        await transport.ensure(*subscribed(code, "billing"))
        consumer = await transport.consume(code, "billing")
        await publish(elsewhere, code, [1])
        assert numbers(await receive(consumer, 1)) == [1]
        for lookupd in own.lookupds:
            lookupd.kill()
            lookupd.start()
        # nsqds tell a new nsqlookupd of themselves only after up to 15 seconds.
        await eventually(lambda: not transport._cluster._lookup.nodes)
        await transport.ensure(*subscribed(code, "billing", "mail"))
        await publish(elsewhere, code, [2])
        assert numbers(await receive(consumer, 1)) == [2]
