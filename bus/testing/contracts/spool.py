"""The contract of every spool. Subclass it, give a ``spool`` fixture, and pytest checks yours.

The fixture yields a new, empty spool with the default consumer ``send`` and a size limit of ``LIMIT`` bytes.
"""

# ruff: noqa: D102, S101, PLR2004

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest

from bus.errors import SpoolClosed, SpoolFull
from bus.ports.spool import ConsumerStats, NewRecord, Record, Spool

LIMIT = 1 << 20


def new(payload: bytes, lane: str = "a", time: int = 7) -> NewRecord:
    """Make a record to append."""
    return NewRecord(lane, payload, time)


def payloads(records: Sequence[Record]) -> list[bytes]:
    """Return what the records carry."""
    return [record.payload for record in records]


def of(spool: Spool, consumer: str, lane: str = "a") -> ConsumerStats:
    """Return a consumer's counts."""
    return next(row for row in spool.stats().consumers if (row.lane, row.consumer) == (lane, consumer))


async def appended_with(spool: Spool, *records: NewRecord) -> list[int]:
    """Append, and wait for what the waiter is told."""
    waiter: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
    spool.append_with(records, waiter)
    assert not waiter.done()
    return await waiter


async def claimed(spool: Spool, count: int) -> list[bytes]:
    """Wait until so many records could be claimed, and return what they carry, sorted."""
    found: list[Record] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            await spool.wait("send", "a")
            found += await spool.claim("send", count, "a")
    return sorted(payloads(found))


class FailingWaiter:
    """Waits for an append, and fails when it learns what came of it."""

    def done(self) -> bool:
        """Be told."""
        return False

    def set_result(self, _: list[int], /) -> None:
        """Fail."""
        raise RuntimeError("a bug of who waits")

    def set_exception(self, error: Exception, /) -> None:
        """Fail."""
        raise RuntimeError("a bug of who waits") from error


class SpoolContract:
    """The behaviour of `bus.ports.spool.Spool`, without restarts."""

    async def test_what_is_appended_is_claimed_in_order_byte_for_byte(self, spool: Spool) -> None:
        bodies = [b"", b"\x00\xff", bytes(5000), b"last"]
        positions = await spool.append([new(body, time=index) for index, body in enumerate(bodies)])
        claimed = await spool.claim("send", 10, "a")
        assert payloads(claimed) == bodies
        assert [record.position for record in claimed] == positions == sorted(set(positions))
        assert [record.time for record in claimed] == [0, 1, 2, 3]
        assert {record.lane for record in claimed} == {"a"}

    async def test_positions_grow_inside_a_lane_over_calls(self, spool: Spool) -> None:
        first = await spool.append([new(b"1"), new(b"2")])
        second = await spool.append([new(b"3")])
        assert first + second == sorted(set(first + second))

    async def test_claim_takes_no_more_than_asked_and_nothing_twice(self, spool: Spool) -> None:
        await spool.append([new(b"%d" % number) for number in range(5)])
        assert payloads(await spool.claim("send", 2, "a")) == [b"0", b"1"]
        assert payloads(await spool.claim("send", 9, "a")) == [b"2", b"3", b"4"]
        assert await spool.claim("send", 9, "a") == []

    @pytest.mark.parametrize("limit", [0, -1])
    async def test_claim_of_nothing_returns_nothing(self, spool: Spool, limit: int) -> None:
        await spool.append([new(b"1")])
        assert await spool.claim("send", limit, "a") == []

    async def test_claim_of_an_unknown_lane_or_consumer_returns_nothing(self, spool: Spool) -> None:
        await spool.append([new(b"1")])
        assert await spool.claim("send", 1, "nowhere") == []
        assert await spool.claim("nobody", 1, "a") == []

    async def test_ack_removes_and_may_be_called_twice(self, spool: Spool) -> None:
        await spool.append([new(b"1"), new(b"2")])
        claimed = await spool.claim("send", 1, "a")
        spool.ack("send", claimed)
        spool.ack("send", claimed)
        await spool.settle()
        assert spool.stats().records == 1
        assert of(spool, "send").records == 1
        assert payloads(await spool.claim("send", 9, "a")) == [b"2"]

    async def test_acks_in_any_order(self, spool: Spool) -> None:
        await spool.append([new(b"%d" % number) for number in range(6)])
        claimed = await spool.claim("send", 6, "a")
        for index in (3, 0, 5, 1):
            spool.ack("send", [claimed[index]])
        spool.release("send", [claimed[4], claimed[2]])
        assert payloads(await spool.claim("send", 9, "a")) == [b"2", b"4"]

    async def test_ack_of_what_is_not_held_does_nothing(self, spool: Spool) -> None:
        await spool.append([new(b"1")])
        claimed = await spool.claim("send", 1, "a")
        spool.release("send", claimed)
        spool.ack("send", claimed)
        await spool.settle()
        assert spool.stats().records == 1

    async def test_released_records_are_the_next(self, spool: Spool) -> None:
        await spool.append([new(b"%d" % number) for number in range(4)])
        claimed = await spool.claim("send", 3, "a")
        spool.release("send", claimed[1:])
        assert payloads(await spool.claim("send", 1, "a")) == [b"1"]
        assert payloads(await spool.claim("send", 9, "a")) == [b"2", b"3"]

    async def test_a_record_stays_until_every_consumer_acked(self, spool: Spool) -> None:
        spool.attach("a", "store")
        await spool.append([new(b"1")])
        first = await spool.claim("send", 1, "a")
        second = await spool.claim("store", 1, "a")
        assert first == second
        spool.ack("send", first)
        await spool.settle()
        assert spool.stats().records == 1
        assert (of(spool, "send").records, of(spool, "store").records) == (0, 1)
        spool.ack("store", second)
        await spool.settle()
        assert spool.stats()[:2] == (0, 0)

    async def test_attach_begins_with_the_next_record(self, spool: Spool) -> None:
        await spool.append([new(b"before")])
        spool.attach("a", "store")
        await spool.append([new(b"after")])
        spool.attach("a", "store")
        assert payloads(await spool.claim("store", 9, "a")) == [b"after"]
        assert payloads(await spool.claim("send", 9, "a")) == [b"before", b"after"]

    async def test_detach_frees_what_waited_only_for_it(self, spool: Spool) -> None:
        spool.attach("a", "store")
        await spool.append([new(b"1"), new(b"2"), new(b"3")])
        spool.ack("send", await spool.claim("send", 2, "a"))
        held = await spool.claim("store", 1, "a")
        spool.detach("a", "store")
        spool.ack("store", held)
        await spool.settle()
        assert spool.stats().records == 1
        assert await spool.claim("store", 9, "a") == []
        assert payloads(await spool.claim("send", 9, "a")) == [b"3"]

    async def test_a_consumer_attached_again_begins_anew(self, spool: Spool) -> None:
        spool.attach("a", "store")
        await spool.append([new(b"old")])
        spool.detach("a", "store")
        spool.attach("a", "store")
        await spool.append([new(b"new")])
        assert payloads(await spool.claim("store", 9, "a")) == [b"new"]
        for consumer in ("send", "store"):
            spool.ack(consumer, await spool.claim(consumer, 9, "a"))
        spool.detach("a", "nobody")
        await spool.settle()
        spool.ack("store", await spool.claim("store", 9, "a"))

    async def test_lanes_take_turns(self, spool: Spool) -> None:
        for lane in "abc":
            await spool.append([new(b"1", lane), new(b"2", lane)])
        assert sorted(spool.lanes("send")) == ["a", "b", "c"]
        await spool.claim("send", 1, "b")
        assert spool.lanes("send")[-1] == "b"
        await spool.claim("send", 1, "a")
        assert list(spool.lanes("send")) == ["c", "b", "a"]
        await spool.claim("send", 1, "b")
        assert list(spool.lanes("send")) == ["c", "a"]
        assert list(spool.lanes("nobody")) == []

    async def test_wait_returns_when_there_is_something(self, spool: Spool) -> None:
        waiting = asyncio.create_task(spool.wait("send", "b"))
        anything = asyncio.create_task(spool.wait("send"))
        await spool.append([new(b"1", "a")])
        await anything
        assert not waiting.done()
        await spool.append([new(b"1", "b")])
        await waiting
        await spool.wait("send", "b")
        claimed = await spool.claim("send", 1, "b")
        again = asyncio.create_task(spool.wait("send", "b"))
        await asyncio.sleep(0)
        assert not again.done()
        spool.release("send", claimed)
        await again

    async def test_the_size_limit_stores_nothing_of_the_call(self, spool: Spool) -> None:
        big = bytes(LIMIT // 4)
        await spool.append([new(big)])
        with pytest.raises(SpoolFull):
            await spool.append([new(b"small"), new(big), new(big), new(big)])
        assert spool.stats().records == 1
        await spool.append([new(b"fits")])
        claimed = await spool.claim("send", 9, "a")
        assert payloads(claimed) == [big, b"fits"]
        spool.ack("send", claimed)
        await spool.settle()
        assert spool.stats().bytes == 0
        await spool.append([new(big), new(big), new(big)])

    async def test_stats_count_records_bytes_and_the_oldest(self, spool: Spool) -> None:
        await spool.append([new(b"12345", time=10), new(b"1", time=20), new(b"2", "b", time=5)])
        stats = spool.stats()
        assert (stats.records, stats.limit, stats.damaged) == (3, LIMIT, 0)
        assert stats.bytes >= 7
        assert of(spool, "send") == ("a", "send", 2, 10)
        assert of(spool, "send", "b") == ("b", "send", 1, 5)
        claimed = await spool.claim("send", 2, "a")
        assert of(spool, "send").oldest == 10
        spool.ack("send", claimed[:1])
        assert of(spool, "send") == ("a", "send", 1, 20)
        spool.ack("send", claimed[1:])
        assert of(spool, "send") == ("a", "send", 0, None)

    async def test_waiting_has_the_consumers_that_have_something(self, spool: Spool) -> None:
        spool.attach("a", "store")
        await spool.append([new(b"1", time=10), new(b"2", time=20), new(b"3", "b"), new(b"4", "c")])
        claimed = [*await spool.claim("send", 1, "a"), *await spool.claim("send", 1, "b")]
        found = [("a", "send", 2, 10), ("a", "store", 2, 10), ("b", "send", 1, 7), ("c", "send", 1, 7)]
        assert sorted(spool.waiting()) == found
        spool.ack("send", claimed)
        assert sorted(spool.waiting()) == [("a", "send", 1, 20), *found[1:2], *found[3:]]
        spool.detach("a", "store")
        await spool.settle()
        await spool.append([new(b"5", "b", time=30)])
        assert sorted(spool.waiting()) == [("a", "send", 1, 20), ("b", "send", 1, 30), *found[3:]]
        assert spool.totals() == spool.stats()[:4]

    async def test_room_tells_what_a_lane_holds_and_what_is_free(self, spool: Spool) -> None:
        assert spool.room("a") == (0, 0, LIMIT)
        await spool.append([new(bytes(100)), new(bytes(200)), new(bytes(1000), lane="b")])
        first, second = spool.room("a"), spool.room("b")
        assert first.held + second.held == first.total == second.total == spool.stats().bytes
        assert 300 <= first.held <= 400
        assert first.free == LIMIT - first.total
        claimed = await spool.claim("send", 9, "a")
        spool.ack("send", claimed)
        await spool.settle()
        assert spool.room("a").held == 0

    async def test_room_is_of_all_lanes_of_a_destination(self, spool: Spool) -> None:
        await spool.append([new(bytes(100), "a"), new(bytes(200), "a/x"), new(bytes(400), "b")])
        assert spool.room("a").held == spool.room("a/y").held == 100 + 200 + 2 * 32
        assert spool.room("b").held == 400 + 32

    async def test_wait_for_one_of_several_lanes(self, spool: Spool) -> None:
        waiting = asyncio.create_task(spool.wait("send", "a", "b"))
        await spool.append([new(b"1", "c")])
        assert not waiting.done()
        await spool.append([new(b"2", "b")])
        async with asyncio.timeout(5):
            await waiting
        await spool.wait("send", "nothing", "b")

    async def test_pending_counts_what_waits_and_what_is_claimed(self, spool: Spool) -> None:
        assert spool.pending("send", "a") == 0
        await spool.append([new(b"1"), new(b"2"), new(b"3", "b")])
        claimed = await spool.claim("send", 1, "a")
        assert (spool.pending("send", "a"), spool.pending("send", "b"), spool.pending("nobody", "a")) == (2, 1, 0)
        spool.ack("send", claimed)
        assert spool.pending("send", "a") == 1

    async def test_many_callers_at_once(self, spool: Spool) -> None:
        calls = [spool.append([new(b"%d-%d" % (call, part)) for part in range(3)]) for call in range(40)]
        positions = await asyncio.gather(*calls)
        assert len({position for call in positions for position in call}) == 120
        claimed: dict[int, bytes] = {}
        while found := await spool.claim("send", 50, "a"):
            claimed.update((record.position, record.payload) for record in found)
        for call, own in enumerate(positions):
            assert [claimed[position] for position in own] == [b"%d-%d" % (call, part) for part in range(3)]

    async def test_a_canceled_append_harms_nobody(self, spool: Spool) -> None:
        calls = [asyncio.create_task(spool.append([new(b"%d" % call)])) for call in range(9)]
        await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        results = await asyncio.gather(*calls, return_exceptions=True)
        kept = {b"%d" % call for call, result in enumerate(results) if isinstance(result, list)}
        assert {b"%d" % call for call in range(1, 9, 2)} <= kept
        assert kept <= set(payloads(await spool.claim("send", 20, "a")))

    async def test_a_waiter_is_told_what_append_returns(self, spool: Spool) -> None:
        (first,) = await spool.append([new(b"1")])
        positions = await appended_with(spool, new(b"2"), new(b"3"))
        assert [first, *positions] == sorted({first, *positions})
        assert payloads(await spool.claim("send", 9, "a")) == [b"1", b"2", b"3"]

    async def test_a_waiter_learns_why_nothing_was_stored(self, spool: Spool) -> None:
        with pytest.raises(SpoolFull):
            await appended_with(spool, new(bytes(LIMIT)))
        assert spool.stats().records == 0

    async def test_a_waiter_that_is_done_is_not_told(self, spool: Spool) -> None:
        waiter: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        spool.append_with([new(b"1")], waiter)
        waiter.cancel()
        await spool.append([new(b"2")])
        assert await claimed(spool, 2) == [b"1", b"2"]

    async def test_a_waiter_that_fails_harms_nobody(self, spool: Spool) -> None:
        spool.append_with([new(b"1")], FailingWaiter())
        await spool.append([new(b"2")])
        await spool.append([new(b"3")])
        assert await claimed(spool, 3) == [b"1", b"2", b"3"]

    async def test_an_append_acks_what_is_done_with_it(self, spool: Spool) -> None:
        await spool.append([new(b"1"), new(b"2")])
        first, second = await spool.claim("send", 9, "a")
        waiter: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        spool.append_with([new(b"3")], waiter, consumer="send", done=[first])
        await waiter
        spool.release("send", [second])
        assert payloads(await spool.claim("send", 9, "a")) == [b"2", b"3"]

    async def test_an_append_that_is_refused_acks_nothing(self, spool: Spool) -> None:
        await spool.append([new(b"1")])
        held = await spool.claim("send", 9, "a")
        waiter: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        with suppress(SpoolFull):
            spool.append_with([new(bytes(LIMIT))], waiter, consumer="send", done=held)
            await waiter
        assert spool.pending("send", "a") == 1
        spool.release("send", held)
        assert payloads(await spool.claim("send", 9, "a")) == [b"1"]

    async def test_the_newest_that_are_not_acked_are_read_and_not_claimed(self, spool: Spool) -> None:
        spool.attach("a", "store")
        await spool.append([new(b"%d" % number) for number in range(8)])
        taken = await spool.claim("send", 6, "a")
        spool.ack("send", [taken[0], taken[2], taken[5]])
        spool.release("send", [taken[3]])
        newest = await spool.newest("send", 3, "a")
        assert payloads(newest) == [b"7", b"6", b"4"]
        assert payloads(await spool.newest("send", 3, "a", newest[-1].position)) == [b"3", b"1"]
        assert payloads(await spool.newest("store", 2, "a")) == [b"7", b"6"]
        assert await spool.newest("send", 3, "b") == await spool.newest("nobody", 3, "a") == []
        assert payloads(await spool.claim("send", 9, "a")) == [b"3", b"6", b"7"]

    async def test_a_record_is_acked_by_the_consumer_that_acked_it(self, spool: Spool) -> None:
        spool.attach("a", "store")
        await spool.append([new(b"1"), new(b"2"), new(b"3")])
        first, second, third = await spool.claim("send", 9, "a")
        spool.ack("send", [first])
        spool.release("send", [third])
        assert [spool.acked("send", record) for record in (first, second, third)] == [True, False, False]
        assert not any(spool.acked(other, first) for other in ("store", "nobody"))

    async def test_an_empty_append_is_nothing(self, spool: Spool) -> None:
        assert await spool.append([]) == []

    async def test_nothing_was_recovered_in_a_new_spool(self, spool: Spool) -> None:
        await spool.append([new(b"1")])
        (record,) = await spool.claim("send", 1, "a")
        assert not spool.recovered("send", record)

    async def test_after_close_everything_says_so(self, spool: Spool) -> None:
        await spool.append([new(b"1")])
        waiting = asyncio.create_task(spool.wait("send", "b"))
        await asyncio.sleep(0)
        await spool.close()
        with pytest.raises(SpoolClosed):
            await waiting
        with pytest.raises(SpoolClosed):
            await spool.append([new(b"2")])
        with pytest.raises(SpoolClosed):
            await spool.claim("send", 1, "a")
        with pytest.raises(SpoolClosed):
            spool.ack("send", [])
        await spool.close()
