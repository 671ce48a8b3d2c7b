"""Keys and users: open until the first is made, hashed at rest, revoked at once."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from bus.errors import AccessDenied, Conflict, StoreUnavailable
from bus.security.key_uses import USES
from bus.security.keyring import KEYS, USERS, Keyring
from bus.security.principals import ANYONE
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore
from bus.testing.writes import NOON


class Slow(MemoryStore):
    """A store that takes a turn of the loop, or more, for everything."""

    down = False

    async def put(self, collection, key, value, *, version=None):
        await asyncio.sleep(0)
        return await super().put(collection, key, value, version=version)

    async def delete(self, collection, key):
        for _ in range(5):
            await asyncio.sleep(0)
        return await super().delete(collection, key)

    async def list(self, collection, *, prefix="", after="", limit=None):
        if self.down:
            raise StoreUnavailable("down")
        found = await super().list(collection, prefix=prefix, after=after, limit=limit)
        for _ in range(10):
            await asyncio.sleep(0)
        return found


@pytest.fixture
async def store() -> Slow:
    return Slow()


@pytest.fixture
async def keyring(store: Slow) -> Keyring:
    return await loaded(store)


async def loaded(store: Slow) -> Keyring:
    keyring = Keyring(store, lambda: NOON)
    await keyring.load()
    return keyring


def bearer(key: str) -> bytes:
    return f"Bearer {key}".encode()


def status(keyring: Keyring, authorization: bytes | None, host: bytes | None = b"localhost") -> int:
    with pytest.raises(AccessDenied) as denied:
        keyring.authenticate(authorization, host)
    return denied.value.status


@pytest.mark.parametrize(
    "host",
    [b"127.0.0.1", b"127.0.0.1:8700", b"localhost", b"LocalHost:1", b"[::1]", b"[::1]:8700"],
)
async def test_an_open_bus_answers_on_loopback_names(keyring: Keyring, host: bytes) -> None:
    assert keyring.is_open
    assert keyring.authenticate(None, host) is ANYONE
    assert keyring.authenticate(b"Bearer whatever", host) is ANYONE


@pytest.mark.parametrize(
    "host",
    [
        None,
        b"",
        b"evil.example",
        b"127.0.0.1.evil.example",
        b"localhost:80:80",
        b"[::2]:80",
        b"127.0.0.1:",
        b"::1",
        b"a@localhost",
    ],
)
async def test_an_open_bus_refuses_a_foreign_host(keyring: Keyring, host: bytes | None) -> None:
    assert status(keyring, None, host) == 403


async def test_with_a_key_nothing_is_open_and_any_host_will_do(keyring: Keyring) -> None:
    key = await keyring.create_key(roles=("producer",), name="shop")
    assert not keyring.is_open
    assert status(keyring, None) == 401
    principal = keyring.authenticate(bearer(key), b"evil.example")
    assert (principal.name, principal.roles) == ("key shop", ("producer",))
    assert keyring.authenticate(b"bEARER   " + key.encode() + b" ", None) == principal


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Basic abc",
        b"Bearer bus_x",
        b"Bearer \xff",
        b"Bearer bus_000000000000_" + b"a" * 43,
    ],
)
async def test_a_wrong_key_is_a_401(keyring: Keyring, wrong: bytes) -> None:
    key = await keyring.create_key(roles=("admin",))
    assert status(keyring, wrong) == 401
    assert status(keyring, bearer(key[:-1] + ("A" if key[-1] != "A" else "B"))) == 401
    assert status(keyring, bearer(key + "a")) == 401


async def test_a_user_closes_the_bus_as_well(keyring: Keyring, store: Slow) -> None:
    password = await keyring.add_user("ann", "viewer")
    assert not keyring.is_open
    assert status(keyring, None) == 401
    with pytest.raises(Conflict):
        await keyring.add_user("ann", "admin")
    (document,) = await store.list(USERS)
    assert password.encode() not in document.value
    assert [user.role for user in keyring.all_users()] == ["viewer"]


async def test_roles_and_destinations_decide(keyring: Keyring) -> None:
    keys = {
        role: keyring.authenticate(bearer(await keyring.create_key(roles=(role,), destinations=("orders",))), None)
        for role in ("producer", "viewer", "operator", "admin")
    }
    may = {
        (role, action, where)
        for role, principal in keys.items()
        for action in ("ingest", "read", "resend", "pause", "configure", "nonsense")
        for where in ("orders", "mails", None)
        if _allowed(principal, action, where)
    }
    assert {one for one in may if one[0] != "admin"} == {
        ("producer", "ingest", "orders"),
        ("viewer", "read", "orders"),
        *(("operator", action, "orders") for action in ("read", "resend", "pause")),
    }
    assert len([one for one in may if one[0] == "admin"]) == 15


def _allowed(principal, action: str, where: str | None) -> bool:
    try:
        principal.require(action, where)
    except AccessDenied:
        return False
    return True


async def test_a_role_that_is_none_is_refused(keyring: Keyring) -> None:
    with pytest.raises(ValueError, match="root"):
        await keyring.create_key(roles=("root",))
    with pytest.raises(ValueError, match="root"):
        await keyring.add_user("ann", "root")
    assert keyring.is_open


async def test_keys_are_there_after_a_restart_and_rest_hashed(keyring: Keyring, store: Slow) -> None:
    key = await keyring.create_key(roles=("viewer",), destinations=("orders",), name="shop")
    again = await loaded(store)
    assert again.authenticate(bearer(key), None) == keyring.authenticate(bearer(key), None)
    (document,) = await store.list(KEYS)
    assert key.encode() not in document.value
    assert key.split("_", 2)[2].encode() not in document.value
    assert [(found.name, found.created_at) for found in again.all_keys()] == [("shop", NOON)]


async def test_two_keys_of_one_name_are_two(keyring: Keyring) -> None:
    one, other = [
        keyring.authenticate(bearer(await keyring.create_key(roles=("producer",), name="shop")), None) for _ in range(2)
    ]
    assert one.name == other.name
    assert one.id != other.id


async def test_a_revoked_key_is_refused_though_it_is_used_meanwhile(keyring: Keyring) -> None:
    await keyring.create_key(roles=("admin",))
    key = await keyring.create_key(roles=("producer",))
    key_id = keyring.authenticate(bearer(key), None).id
    deleting = asyncio.create_task(keyring.delete_key(key_id))
    while not deleting.done():
        await asyncio.sleep(0)
        with contextlib.suppress(AccessDenied):
            keyring.authenticate(bearer(key), None)
    assert await deleting
    assert status(keyring, bearer(key)) == 401
    assert not await keyring.delete_key(key_id)


async def test_a_revoked_key_is_not_brought_back_by_a_load_that_was_under_way(keyring: Keyring) -> None:
    await keyring.create_key(roles=("admin",))
    key = await keyring.create_key(roles=("producer",))
    key_id = keyring.authenticate(bearer(key), None).id
    await asyncio.gather(keyring.load(), keyring.delete_key(key_id))
    assert status(keyring, bearer(key)) == 401


async def test_a_key_that_another_process_revokes_is_not_brought_back_by_a_change_of_its_rate(
    keyring: Keyring, store: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keyring.create_key(roles=("admin",))
    key = await keyring.create_key(roles=("producer",))
    key_id = keyring.authenticate(bearer(key), None).id
    put = store.put

    async def late(collection, name, value, *, version=None):
        await store.delete(KEYS, key_id)
        return await put(collection, name, value, version=version)

    monkeypatch.setattr(store, "put", late)
    with pytest.raises(Conflict):
        await keyring.limit_key(key_id, 5.0, None)
    await keyring.load()
    assert status(keyring, bearer(key)) == 401


async def test_a_new_key_is_not_lost_by_a_load_that_was_under_way(keyring: Keyring) -> None:
    _, key = await asyncio.gather(keyring.load(), keyring.create_key(roles=("producer",)))
    assert keyring.authenticate(bearer(key), None).roles == ("producer",)


async def test_the_last_key_stays_since_without_it_the_bus_would_be_open(keyring: Keyring) -> None:
    key = await keyring.create_key(roles=("admin",))
    key_id = keyring.authenticate(bearer(key), None).id
    with pytest.raises(Conflict, match="open"):
        await keyring.delete_key(key_id)
    assert not keyring.is_open
    assert keyring.authenticate(bearer(key), None).id == key_id
    await keyring.add_user("ann", "admin")
    assert await keyring.delete_key(key_id)
    assert status(keyring, None) == 401


async def test_keys_that_another_process_makes_or_revokes_are_followed(keyring: Keyring, store: Slow) -> None:
    clock = ManualClock()
    following = asyncio.create_task(keyring.follow(clock))
    offline = await loaded(store)
    first = await offline.create_key(roles=("admin",))
    await clock.advance(1)
    assert keyring.authenticate(bearer(first), None).roles == ("admin",)
    second = await offline.create_key(roles=("viewer",))
    store.down = True
    await clock.advance(5)
    assert status(keyring, bearer(second)) == 401
    store.down = False
    await clock.advance(1)
    second_id = keyring.authenticate(bearer(second), None).id
    await offline.delete_key(second_id)
    await clock.advance(1)
    assert status(keyring, bearer(second)) == 401
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_the_last_use_of_a_key_is_known_in_every_process_to_the_minute(store: Slow) -> None:
    clock = ManualClock()
    here, there = Keyring(store, clock.now), Keyring(store, clock.now)
    key = await here.create_key(roles=("viewer",))
    unused = await here.create_key(roles=("viewer",))
    key_id, unused_id = key.split("_")[1], unused.split("_")[1]
    assert await here.last_uses() == {}
    following = asyncio.create_task(here.follow(clock))
    await clock.advance(30)
    here.authenticate(bearer(key), None)
    assert await here.last_uses() == {key_id: NOON}
    await clock.advance(31)
    assert await there.last_uses() == {key_id: NOON + 60_000}
    before = (await store.list(USES))[0].version
    await clock.advance(600)
    assert (await store.list(USES))[0].version == before
    assert unused_id not in await there.last_uses()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_key_in_steady_use_costs_one_write_a_minute(store: Slow) -> None:
    clock = ManualClock()
    rings = [Keyring(store, clock.now) for _ in range(3)]
    key = await rings[0].create_key(roles=("viewer",))
    following = [asyncio.create_task(ring.follow(clock)) for ring in rings]
    await clock.advance(1)
    for _ in range(300):
        for ring in rings:
            ring.authenticate(bearer(key), None)
        await clock.advance(1)
    assert (await store.list(USES))[0].version <= 6
    for task in following:
        task.cancel()
    await asyncio.gather(*following, return_exceptions=True)


async def test_uses_wait_for_a_store_that_is_away(store: Slow) -> None:
    clock = ManualClock()
    keyring = Keyring(store, clock.now)
    key = await keyring.create_key(roles=("viewer",))
    following = asyncio.create_task(keyring.follow(clock))
    keyring.authenticate(bearer(key), None)
    store.down = True
    await clock.advance(70)
    store.down = False
    assert await store.list(USES) == []
    await clock.advance(60)
    assert [found.key for found in await store.list(USES)] == [key.split("_")[1]]
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_a_revoked_key_leaves_no_use(store: Slow) -> None:
    clock = ManualClock()
    keyring = Keyring(store, clock.now)
    await keyring.create_key(roles=("admin",))
    key = await keyring.create_key(roles=("viewer",))
    following = asyncio.create_task(keyring.follow(clock))
    keyring.authenticate(bearer(key), None)
    await clock.advance(61)
    assert len(await store.list(USES)) == 1
    keyring.authenticate(bearer(key), None)
    await keyring.delete_key(key.split("_")[1])
    await clock.advance(61)
    assert await store.list(USES) == []
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


async def test_of_two_processes_that_revoke_the_last_two_keys_one_is_refused(store: Slow) -> None:
    here = await loaded(store)
    ids = [(await here.create_key(roles=("admin",))).split("_")[1] for _ in range(2)]
    there = await loaded(store)
    assert await here.delete_key(ids[0])
    with pytest.raises(Conflict, match="open"):
        await there.delete_key(ids[1])
