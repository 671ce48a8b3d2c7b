"""Helpers for tests of partitions: a transport on the double, messages with keys, and their order at consumers."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from bus.domain.destination import Destination, Ordering
from bus.domain.message import encode_message
from bus.domain.subscription import Subscription
from bus.ports.transport import Consumer, OutgoingMessage
from bus.testing.writes import message
from bus.transports.nsq import NsqConfig, NsqTransport, parse_lookupd
from tests.doubles.youzan.running import YouzanDouble
from tests.integration.nsq.nsq_world import opened

__all__ = ["KEYS", "PATIENCE", "config", "first_deliveries", "opened", "out_of_order", "outgoing", "publish", "wanted"]

PATIENCE = 60.0
KEYS = [f"account-{n}" for n in range(20)]


def config(double: YouzanDouble, *, lookupds: Iterable[int] = (1,), **changes: Any) -> NsqConfig:
    """Return settings that notice everything soon; only the first nsqlookupd is told, the others are listed."""
    quick = {"heartbeat": 2.0, "timeout": 4.0, "msg_timeout": 2.0, "lookup_interval": 0.3, "stats_interval": 0.1}
    told = ",".join(f"127.0.0.1:{double.lookupds[number]}" for number in lookupds)
    return NsqConfig(lookupd=parse_lookupd(told), **quick | changes)


def wanted(
    code: str, *names: str, ordering: Ordering = Ordering.NONE, traced: bool = False
) -> tuple[Destination, list[Subscription]]:
    """Return what ``ensure`` takes."""
    subscriptions = [Subscription(destination=code, name=name, url="http://s/hook") for name in names or ("billing",)]
    return Destination(code=code, ordering=ordering, traced=traced), subscriptions


def outgoing(code: str, numbers: Iterable[int], *, keyed: bool = True) -> list[OutgoingMessage]:
    """Return messages whose biz ids tell them apart, with keys in turns."""
    made = [message(n, destination=code, key=KEYS[n % len(KEYS)] if keyed else "") for n in numbers]
    return [OutgoingMessage(one, encode_message(one)) for one in made]


async def publish(transport: NsqTransport, batch: Sequence[OutgoingMessage]) -> None:
    """Publish as the receiver does: again until all is confirmed, and of a key nothing behind what is not."""
    left = list(batch)
    async with asyncio.timeout(PATIENCE):
        while left:
            wave = _first_of_each_key(left)
            confirmed = await transport.publish(wave)
            held = {item.message.id for item, done in zip(wave, confirmed, strict=True) if done}
            left = [item for item in left if item.message.id not in held]
            if len(held) < len(wave):
                await asyncio.sleep(0.05)  # as long as the receiver waits at first


def _first_of_each_key(batch: Sequence[OutgoingMessage]) -> list[OutgoingMessage]:
    first: dict[str, OutgoingMessage] = {}
    for item in batch:
        first.setdefault(item.message.key or item.message.id, item)
    return list(first.values())


async def first_deliveries(consumer: Consumer, expected: Collection[int]) -> list[tuple[str, int]]:
    """Receive until each of these came; return the first delivery of each: its key and number.

    Others are finished and left out: what was finished just before a connection broke comes again.
    """
    found: dict[int, str] = {}
    async with asyncio.timeout(PATIENCE):
        while len(found) < len(expected):
            items = await consumer.receive(100)
            for item in items:
                number = int(item.message.biz_id.removeprefix("order-"))
                if number in expected:
                    found.setdefault(number, item.message.key)
            consumer.ack(items)
    return [(key, number) for number, key in found.items()]


def out_of_order(deliveries: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the deliveries that came after a later one of their key."""
    last: dict[str, int] = {}
    late = []
    for key, number in deliveries:
        if number < last.get(key, -1):
            late.append((key, number))
        last[key] = max(number, last.get(key, -1))
    return late
