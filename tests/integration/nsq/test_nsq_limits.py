"""Messages that NSQ cannot carry, peers that are no NSQ, and waits that end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bus.domain.destination import Destination
from bus.domain.subscription import Subscription
from bus.errors import InvalidDestination, TransportRefused, TransportUnavailable
from bus.transports.nsq import parse_lookupd, parse_nsqd
from tests.harness.process import free_port
from tests.integration.nsq.nsq_world import (
    config,
    eventually,
    in_flight,
    numbers,
    opened,
    outgoing,
    publish,
    receive,
    stop,
    subscribed,
    well,
)
from tests.servers import nsq


async def test_a_message_that_is_too_large_stays_behind_and_the_others_go_on(
    programs: Path, tmp_path: Path, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = ["-max-msg-size=10000", "-max-body-size=50000"]
    with nsq.NsqdServer(programs, tmp_path / "small", options=options) as small:
        async with opened(config([small])) as transport:
            await transport.ensure(*subscribed(code, "billing"))
            fitting, large = outgoing(code, range(30), bytes(9000)), outgoing(code, [99], bytes(10000))
            with caplog.at_level(logging.WARNING, "bus.transports.nsq"):
                confirmed = await transport.publish([*fitting[:7], *large, *fitting[7:]])
            assert confirmed == [True] * 7 + [False] + [True] * 23
            (warning,) = [record.getMessage() for record in caplog.records]
            assert large[0].message.id in warning
            assert "--max-msg-size" in warning
            assert numbers(await receive(await transport.consume(code, "billing"), 30)) == list(range(30))
            assert well(transport)


async def test_an_nsqd_with_smaller_limits_does_not_keep_a_message_from_the_other(
    programs: Path, tmp_path: Path, shared: nsq.NsqServers, code: str
) -> None:
    with nsq.NsqdServer(programs, tmp_path / "small", options=["-max-msg-size=10000"]) as small:
        async with opened(config([small, shared.nsqds[0]])) as transport:
            await transport.ensure(*subscribed(code, "billing"))
            for n in range(4):
                assert await transport.publish(outgoing(code, [n], bytes(20000))) == [True]


async def test_names_that_nsq_does_not_allow_are_refused(shared: nsq.NsqServers, code: str) -> None:
    async with opened(config(shared.nsqds)) as transport:
        transport.check(Destination(code="a" * 64))
        for name in ("a" * 65, "orders/new", ""):
            with pytest.raises(InvalidDestination) as refusal:
                transport.check(Destination(code=name))
            assert refusal.value.field == "code"
            with pytest.raises(InvalidDestination):
                await transport.ensure(Destination(code=name), [])
            await transport.remove(name, "billing")
        destination, subscriptions = subscribed(code, "billing")
        odd = Subscription(destination=code, name="b" * 65, url="http://s/hook")
        with pytest.raises(TransportRefused, match="cannot name a channel"):
            await transport.ensure(destination, [odd, *subscriptions])
        await publish(transport, code, range(3))
        await receive(await transport.consume(code, "billing"), 3)


async def test_a_peer_that_is_no_nsqd_is_told_in_plain_words(shared: nsq.NsqServers, code: str) -> None:
    wrong = f"{shared.nsqds[0].http}/{shared.nsqds[0].http.rpartition(':')[2]}"
    async with opened(config()._replace(nsqd=parse_nsqd(wrong))) as transport:
        with pytest.raises(TransportUnavailable, match="not NSQ's protocol"):
            await transport.ensure(*subscribed(code, "billing"))


async def test_an_http_api_that_is_not_nsqds_is_told_in_plain_words(shared: nsq.NsqServers, code: str) -> None:
    wrong = f"{shared.nsqds[0].tcp}/{shared.lookupds[0].http.rpartition(':')[2]}"
    async with opened(config()._replace(nsqd=parse_nsqd(wrong))) as transport:
        with pytest.raises(TransportRefused, match=f"from http://{shared.lookupds[0].http}/stats"):
            await transport.ensure(*subscribed(code, "billing"))


async def test_an_http_api_that_fails_is_asked_again(alone: nsq.NsqdServer, code: str) -> None:
    async def fail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nConnection: close\r\n\r\n")
        writer.close()

    gateway = await asyncio.start_server(fail, "127.0.0.1", 0)
    place = f"{alone.tcp}/{gateway.sockets[0].getsockname()[1]}"
    async with gateway, opened(config()._replace(nsqd=parse_nsqd(place))) as transport:
        with pytest.raises(TransportUnavailable, match="HTTP 502"):
            await transport.ensure(*subscribed(code, "billing"))
        with pytest.raises(TransportUnavailable):
            await transport.remove(code, "billing")


async def test_an_http_port_that_is_not_told_is_learnt_from_nsqlookupd(
    programs: Path, tmp_path: Path, shared: nsq.NsqServers, code: str
) -> None:
    odd = nsq.NsqdServer(programs, tmp_path / "odd", lookupds=[shared.lookupds[0].tcp])
    odd.http = f"127.0.0.1:{free_port()}"
    with odd:
        async with opened(config(lookupds=shared.lookupds)._replace(nsqd=parse_nsqd(odd.tcp))) as transport:
            await publish_soon(transport, code)


async def test_the_http_port_is_the_next_one_by_nsqs_own_custom(alone: nsq.NsqdServer, code: str) -> None:
    async with opened(config()._replace(nsqd=parse_nsqd(alone.tcp))) as transport:
        await publish_soon(transport, code)


async def test_an_http_port_that_was_guessed_is_not_believed_when_it_is_another_nsqds(
    alone: nsq.NsqdServer, programs: Path, tmp_path: Path, code: str
) -> None:
    before = nsq.NsqdServer(programs, tmp_path / "before")
    before.tcp = f"127.0.0.1:{int(alone.http.rpartition(':')[2]) - 1}"
    alone.kill()
    other = nsq.NsqdServer(programs, tmp_path / "other")
    other.http = alone.http
    with before, other:
        async with opened(config()._replace(nsqd=parse_nsqd(before.tcp))) as transport:
            with pytest.raises(TransportUnavailable, match="belongs to another nsqd; name its HTTP port"):
                await transport.ensure(*subscribed(code, "billing"))
            # Its channels would have been made at the wrong place.
            assert not other.stats(code, "billing")


async def publish_soon(transport, code: str) -> None:
    await eventually(lambda: well(transport))
    await transport.ensure(*subscribed(code, "billing"))
    await publish(transport, code, range(3))
    assert numbers(await receive(await transport.consume(code, "billing"), 3)) == [0, 1, 2]


async def test_every_wait_ends_when_all_nsqds_are_paused(own: nsq.NsqServers, code: str) -> None:
    async with opened(config(own.nsqds, heartbeat=30.0, stats_interval=60.0)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(20))
        consumer = await transport.consume(code, "billing")
        await receive(consumer, 20)
        for nsqd in own.nsqds:
            nsqd.pause()
        try:
            asked = (
                consumer.close(),
                transport.publish(outgoing(code, [0])),
                transport.ensure(*subscribed(code, "mail")),
                transport.remove(code, "stock"),
            )
            waits = [ends_within(15, one) for one in asked]
            closed, published, *refused = await asyncio.gather(*waits, return_exceptions=True)
            assert (closed, published) == (None, [False])
            assert [type(error) for error in refused] == [TransportUnavailable] * 2
        finally:
            for nsqd in own.nsqds:
                nsqd.resume()


async def ends_within(seconds: float, wait: Awaitable[Any]) -> Any:
    began = time.monotonic()
    try:
        return await wait
    finally:
        assert time.monotonic() - began < seconds


async def test_closing_gives_everything_back_to_the_other_dispatchers(shared: nsq.NsqServers, code: str) -> None:
    async with opened(config(shared.nsqds)) as one, opened(config(shared.nsqds)) as two:
        await one.ensure(*subscribed(code, "billing"))
        await publish(one, code, range(100))
        await publish(one, code, range(100, 200))
        first = await one.consume(code, "billing")
        held = await receive(first, 60, limit=50, ack=False)
        first.ack(held[:10])
        second = await two.consume(code, "billing")
        receiving = asyncio.create_task(receive(second, 190))
        await first.close()
        found = await receiving
        assert sorted(numbers(found) + numbers(held[:10])) == list(range(200))
        await eventually(lambda: not any(in_flight(nsqd, code) for nsqd in shared.nsqds))
        # What is said to a closed one has no effect.
        first.ack(held)
        first.release(held)
        await first.close()
        waiting = asyncio.create_task(first.receive(1))
        await publish(one, code, [500])
        assert numbers(await receive(second, 1)) == [500]
        await stop(waiting)


async def test_many_destinations_at_once(shared: nsq.NsqServers, code: str) -> None:
    async with opened(config(shared.nsqds, timeout=60.0)) as transport:
        codes = [f"{code}.{n}" for n in range(40)]
        async with asyncio.TaskGroup() as group:
            for one in codes:
                group.create_task(transport.ensure(*subscribed(one, "billing", "mail")))
        batch = [item for one in codes for item in outgoing(one, range(5))]
        assert all(await transport.publish(batch))
        for one in codes:
            assert sorted(numbers(await receive(await transport.consume(one, "billing"), 5))) == [0, 1, 2, 3, 4]
        await eventually(lambda: all((transport.lags() or {}).get((one, "billing")) == (0, None) for one in codes))
        assert all((transport.lags() or {})[one, "mail"] == (5, 0) for one in codes)


async def test_names_that_no_network_knows_stop_nothing_else(shared: nsq.NsqServers, code: str) -> None:
    odd = parse_nsqd("nsqd..example:4150,127.0.0.1:1")
    settings = config(shared.nsqds)
    settings = settings._replace(nsqd=settings.nsqd + odd, lookupd=parse_lookupd("nsqlookupd..example:4161,a b:1"))
    async with opened(settings) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        await publish(transport, code, range(3))
        await receive(await transport.consume(code, "billing"), 3)
        for server in (*(f"nsqd {told.tcp}" for told in odd), "nsqlookupd nsqlookupd..example:4161"):
            await eventually(lambda server=server: "cannot reach" in str(transport.conditions()[server]))


async def test_many_destinations_wait_no_longer_for_a_paused_nsqd_than_one(alone: nsq.NsqdServer, code: str) -> None:
    async with opened(config([alone], heartbeat=30.0, stats_interval=60.0)) as transport:
        await transport.ensure(*subscribed(code, "billing"))
        alone.pause()
        try:
            waits = [transport.ensure(*subscribed(f"{code}.{n}", "billing")) for n in range(10)]
            removals = [transport.remove(f"{code}.{n}", "mail") for n in range(10)]
            found = await ends_within(15, asyncio.gather(*waits, *removals, return_exceptions=True))
            assert {type(error) for error in found} == {TransportUnavailable}
        finally:
            alone.resume()
        await eventually(lambda: well(transport))
        await asyncio.gather(*(transport.ensure(*subscribed(f"{code}.{n}", "billing")) for n in range(10)))
        assert all(alone.stats(f"{code}.{n}", "billing") for n in range(10))


async def test_an_nsqlookupd_that_trickles_is_given_up(own: nsq.NsqServers, code: str) -> None:
    trickling: set[asyncio.StreamWriter] = set()

    async def trickle(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        trickling.add(writer)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b" ")
                await asyncio.sleep(0.1)
        trickling.discard(writer)

    server = await asyncio.start_server(trickle, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    settings = config(lookupds=own.lookupds)
    settings = settings._replace(lookupd=(*settings.lookupd, *parse_lookupd(f"{host}:{port}")))
    async with server:
        async with opened(settings) as transport:
            await eventually(lambda: "within 4 s" in str(transport.conditions()[f"nsqlookupd {host}:{port}"]))
            await transport.ensure(*subscribed(code, "billing"))
            await publish(transport, code, [0])
        await eventually(lambda: not trickling)
