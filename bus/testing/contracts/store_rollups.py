"""Counters over time on every store: each process writes its own sheets, in any order and more than once."""

# ruff: noqa: D102, S101

from __future__ import annotations

import asyncio

from bus.domain.delivery.delivery import Status
from bus.domain.statistics.rollup import MINUTE, RESOLUTIONS, added_up
from bus.domain.times import DAY
from bus.ports.store import Store
from bus.stores.rollups import RollupReader, Rollups
from bus.testing.clock import ManualClock
from bus.testing.writes import DESTINATION, NOON, message, outcome

MINUTES, TENS, HOURS, DAYS = RESOLUTIONS


class RollupContract:
    """The behaviour of ``bus.stores.rollups`` on ``bus.ports.store.DocumentStore``."""

    async def test_processes_add_up_whatever_the_order(self, store: Store) -> None:
        clock = ManualClock()
        one, other = (Rollups(store, clock, owner, lambda: None) for owner in ("one", "other"))
        one.count([message(0), message(1, source="till")])
        other.count([message(2), outcome(message(2), "billing", Status.DELIVERED)])
        await asyncio.gather(one.flush(), other.flush(), one.flush())
        other.count([message(3)])
        await other.flush()
        await one.flush()
        for resolution in RESOLUTIONS:
            sheets = await RollupReader(store, clock).sheets(resolution, resolution.start(NOON), NOON + 1)
            assert list(sheets) == [resolution.start(NOON)]
            sheet = sheets[resolution.start(NOON)]
            assert sheet.accepted == {DESTINATION: {"shop": 3, "till": 1}}
            assert sheet.deliveries[DESTINATION]["billing"].ended == {Status.DELIVERED: 1}

    async def test_a_range_has_its_periods_and_no_others(self, store: Store) -> None:
        clock = ManualClock(NOON + 10 * MINUTE)
        rollups = Rollups(store, clock, "one", lambda: None)
        rollups.count([message(number * MINUTE) for number in range(5)])
        await rollups.flush()
        sheets = await RollupReader(store, clock).sheets(MINUTES, NOON + MINUTE, NOON + 3 * MINUTE)
        assert sorted(sheets) == [NOON + MINUTE, NOON + 2 * MINUTE]

    async def test_what_comes_late_is_added(self, store: Store) -> None:
        clock = ManualClock()
        rollups = Rollups(store, clock, "one", lambda: None)
        rollups.count([message(0)])
        await rollups.flush()
        await clock.advance(3_600)
        await rollups.flush()
        rollups.count([message(1)])
        await rollups.flush()
        sheets = await RollupReader(store, clock).sheets(MINUTES, NOON, NOON + 1)
        assert sheets[NOON].accepted == {DESTINATION: {"shop": 2}}

    async def test_sheets_past_their_time_are_deleted(self, store: Store) -> None:
        clock = ManualClock()
        rollups, reader = Rollups(store, clock, "one", lambda: None), RollupReader(store, clock)
        rollups.count([message(0)])
        await rollups.flush()
        await clock.advance(DAY / 1000)
        rollups.count([message(DAY)])
        await rollups.flush()
        assert await reader.expire(clock.now()) == 1
        assert not await reader.sheets(MINUTES, NOON, NOON + 1)
        for resolution in (TENS, HOURS, DAYS):
            assert len(await reader.sheets(resolution, resolution.start(NOON), NOON + 1)) == 1
        both = await reader.sheets(DAYS, DAYS.start(NOON), NOON + DAY)
        assert added_up(both.values()).accepted == {DESTINATION: {"shop": 2}}
