"""Whatever of a spool was finished by whom, another one goes on from there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.ports.spool import NewRecord, Record, Spool
from bus.spool import AsyncSpool, Options
from bus.spool.takeover import take_over
from bus.testing.spool import MemorySpool

LANES = ("orders", "orders/billing", "mail")
CONSUMERS = ("store", "retry", "publish")


async def waiting(spool: Spool) -> dict[tuple[str, str], list[bytes]]:
    """Return what each consumer of each lane has before it, and give it back."""
    found = {}
    for stats in spool.stats().consumers:
        records = await spool.claim(stats.consumer, 10_000, stats.lane)
        spool.release(stats.consumer, records)
        found[stats.lane, stats.consumer] = [record.payload for record in records]
    return found


async def fill(spool: Spool, plan: list[tuple[str, int, frozenset[str]]]) -> None:
    """Append records, each by its lane and who has finished it; who has finished none of a lane is attached too."""
    for lane in LANES:
        for consumer in CONSUMERS:
            spool.attach(lane, consumer)
    for number, (lane, time, finished) in enumerate(plan):
        await spool.append([NewRecord(lane, b"%d" % number, time)])
        for consumer in finished:
            records = await spool.claim(consumer, 10_000, lane)
            spool.ack(consumer, records[-1:])
            spool.release(consumer, records[:-1])
    await spool.settle()


SHAPES = st.lists(
    st.tuples(st.sampled_from(LANES), st.integers(0, 9), st.frozensets(st.sampled_from(CONSUMERS))), max_size=12
)


@given(plan=SHAPES, there=SHAPES)
async def test_every_shape_goes_on_as_it_was(plan: list, there: list) -> None:
    source, target = MemorySpool(consumers=()), MemorySpool(consumers=())
    await fill(source, plan)
    await fill(target, there)
    wanted, before = await waiting(source), await waiting(target)
    await take_over(source, target)
    assert await waiting(target) == {key: before.get(key, []) + wanted[key] for key in wanted}
    assert source.stats().records == 0


@pytest.fixture
async def spools(tmp_path: Path) -> AsyncIterator[tuple[AsyncSpool, AsyncSpool]]:
    source = await AsyncSpool.open(tmp_path / "source", Options(consumers=()))
    target = await AsyncSpool.open(tmp_path / "target", Options(consumers=()))
    yield source, target
    await source.close()
    await target.close()


async def test_many_records_on_disk(spools: tuple[AsyncSpool, AsyncSpool]) -> None:
    source, target = spools
    for consumer in ("paused", "quick"):
        source.attach("orders", consumer)
    await source.append([NewRecord("orders", b"%d" % number, number) for number in range(3000)])
    for _ in range(20):
        source.ack("quick", await source.claim("quick", 100, "orders"))
        await source.settle()
    assert await take_over(source, target) == 3000
    found = {stats.consumer: (stats.records, stats.oldest) for stats in target.stats().consumers}
    assert found == {"paused": (3000, 0), "quick": (1000, 2000)}
    assert source.stats().records == 0


async def test_what_waits_before_it_is_not_claimed_when_it_is_much(spools: tuple[AsyncSpool, AsyncSpool]) -> None:
    source, target = spools
    for spool in spools:
        for consumer in ("ahead", "behind"):
            spool.attach("orders", consumer)
    await target.append([NewRecord("orders", b"there", 0)] * 2000)
    await source.append([NewRecord("orders", b"%d" % number, number) for number in range(20)])
    source.ack("ahead", await source.claim("ahead", 15, "orders"))
    await source.settle()
    claimed: list[int] = []
    claim = target.claim

    async def counted(consumer: str, limit: int, lane: str) -> list[Record]:
        found = await claim(consumer, limit, lane)
        claimed.append(len(found))
        return found

    target.claim = counted  # type: ignore[method-assign, assignment]
    await take_over(source, target)
    assert sum(claimed) == 0
    found = {stats.consumer: stats.records for stats in target.stats().consumers}
    assert found == {"ahead": 2020, "behind": 2020}


async def test_cut_short_it_is_repeated_and_loses_none(spools: tuple[AsyncSpool, AsyncSpool]) -> None:
    source, target = spools
    source.attach("orders", "billing")
    await source.append([NewRecord("orders", b"%d" % number, number) for number in range(600)])
    settle, left = source.settle, iter([1])

    async def settle_once() -> None:
        if next(left, None) is None:
            raise OSError("cut short")
        await settle()

    source.settle = settle_once  # type: ignore[method-assign]
    with pytest.raises(OSError, match="cut short"):
        await take_over(source, target)
    source.settle = settle  # type: ignore[method-assign]
    held = await source.claim("billing", 1, "orders")
    source.release("billing", held)
    await take_over(source, target)
    records = await target.claim("billing", 2000, "orders")
    assert {record.time for record in records} == set(range(600))
