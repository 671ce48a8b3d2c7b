"""Of what an earlier life accepted and the store lacks, the newest messages are read, within a bound."""

from __future__ import annotations

import pytest

from bus.domain.message import encode_message
from bus.ports.spool import NewRecord
from bus.testing.spool import MemorySpool
from bus.testing.writes import message
from receiver import repetitions
from receiver.repetitions import newest_unstored


async def filled(**counts: int) -> MemorySpool:
    """Return a spool with so many messages in each lane."""
    spool = MemorySpool(consumers=("publish", "store"))
    for lane, count in counts.items():
        messages = [message(number, destination=lane) for number in range(count)]
        await spool.append([NewRecord(lane, encode_message(one), 1) for one in messages])
    return spool


async def numbers(*spools: MemorySpool) -> dict[str, list[int]]:
    """Return the numbers of the messages that are read, by lane."""
    found: dict[str, list[int]] = {}
    async for one in newest_unstored([(spool, "store") for spool in spools]):
        found.setdefault(one.destination, []).append(int(one.body.removeprefix(b"body ")))
    return found


async def test_what_the_store_has_is_not_read() -> None:
    spool = await filled(orders=100)
    spool.ack("store", await spool.claim("store", 98, "orders"))
    await spool.claim("publish", 100, "orders")
    assert await numbers(spool, await filled(mails=1)) == {"mails": [0], "orders": [99, 98]}


async def test_a_lane_with_many_leaves_the_others_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetitions, "_MOST_RECOVERED", 100)
    found = await numbers(await filled(huge=500, orders=10), await filled(large=200))
    assert {lane: len(of) for lane, of in found.items()} == {"orders": 10, "large": 45, "huge": 45}
    assert found["huge"] == list(range(499, 454, -1))


async def test_large_messages_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repetitions, "_PAGE", 1)
    monkeypatch.setattr(repetitions, "_MOST_BYTES", 3 * len(encode_message(message(0, destination="orders"))))
    assert await numbers(await filled(orders=9)) == {"orders": [8, 7, 6]}


async def test_a_record_of_another_version_is_passed_over() -> None:
    spool = await filled(orders=2)
    await spool.append([NewRecord("orders", b"?", 1)])
    assert await numbers(spool) == {"orders": [1, 0]}
