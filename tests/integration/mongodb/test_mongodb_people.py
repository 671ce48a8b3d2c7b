"""The audit log, sessions and the use of keys on MongoDB."""

from __future__ import annotations

import asyncio

from bus.clock import SystemClock
from bus.domain.times import DAY
from bus.security.audit_log import AuditLog, AuditQuery
from bus.security.keyring import Keyring
from bus.security.principals import ANYONE
from bus.security.sessions import SESSIONS, Limits, Sessions
from bus.stores.mongodb import MongodbStore
from bus.testing.clock import ManualClock


async def test_the_audit_log_is_read_from_the_newest_and_dropped_by_age(store: MongodbStore) -> None:
    clock = ManualClock()
    log = AuditLog(store, clock)
    for number in range(100):
        entry = log.entry(ANYONE, "PUT", f"rates/{number}", changes={}, address="127.0.0.1")
        await log.add(entry)
        await log.complete(entry, 200)
        clock.jump(1000)
    found, after = [], None
    while True:
        page = await log.read(AuditQuery(), after=after, limit=30)
        found += page.entries
        after = page.next
        if after is None:
            break
    assert [entry.resource for entry in found] == [f"rates/{number}" for number in reversed(range(100))]
    assert {entry.status for entry in found} == {200}
    clock.jump(DAY - 30_000)
    assert await log.expire(1) == 70
    assert len((await log.read(AuditQuery(), after=None, limit=1000)).entries) == 30


async def test_sessions_hold_in_every_process_until_they_are_closed(store: MongodbStore) -> None:
    clock = ManualClock()
    limits = Limits(idle=600_000, lifetime=3_600_000)
    here, there = [Sessions(store, Keyring(store, clock.now), clock, limits) for _ in range(2)]
    await here._keyring.add_user("ann", "viewer")
    user = here._keyring.user("ann")
    assert user is not None
    token = await here.open(user)
    for _ in range(3):
        clock.jump(300_000)
        found = await asyncio.gather(*(process.find(token) for process in (here, there) * 5))
        assert all(found)
    session = await there.find(token)
    assert session is not None
    await there.close(session.id)
    assert await here.find(token) is None
    await here.open(user)
    clock.jump(600_000)
    assert await there.expire() == 1
    assert await store.list(SESSIONS) == []


async def test_the_use_of_a_key_is_known_elsewhere(store: MongodbStore) -> None:
    clock = SystemClock()
    here, there = [Keyring(store, clock.now) for _ in range(2)]
    key = await here.create_key(roles=("viewer",))
    here.authenticate(f"Bearer {key}".encode(), None)
    await here._uses.save(here._keys)
    assert list(await there.last_uses()) == [key.split("_")[1]]
