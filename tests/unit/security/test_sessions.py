"""Sessions end when they must, in every process, and outlive a restart and a store that is away."""

from __future__ import annotations

import pytest

from bus.errors import StoreUnavailable
from bus.security.keyring import Keyring
from bus.security.principals import Principal
from bus.security.sessions import SESSIONS, Limits, Sessions, csrf_of
from bus.testing.clock import ManualClock
from bus.testing.store import MemoryStore

pytestmark = pytest.mark.usefixtures("quick_passwords")

MINUTE = 60
LIMITS = Limits(idle=30 * MINUTE * 1000, lifetime=12 * 60 * MINUTE * 1000)


class Fickle(MemoryStore):
    down = False

    async def get(self, collection, key):
        self._check()
        return await super().get(collection, key)

    async def put(self, collection, key, value, *, version=None):
        self._check()
        return await super().put(collection, key, value, version=version)

    async def list(self, collection, *, prefix="", after="", limit=None):
        self._check()
        return await super().list(collection, prefix=prefix, after=after, limit=limit)

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("down")


class Process:
    """A process with what it has in memory."""

    def __init__(self, store: MemoryStore, clock: ManualClock) -> None:
        self.keyring = Keyring(store, clock.now)
        self.sessions = Sessions(store, self.keyring, clock, LIMITS)


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store() -> Fickle:
    return Fickle()


@pytest.fixture
async def here(store: Fickle, clock: ManualClock) -> Process:
    process = Process(store, clock)
    await process.keyring.add_user("ann", "operator", ("orders",))
    return process


async def opened(process: Process) -> str:
    user = process.keyring.user("ann")
    assert user is not None
    return await process.sessions.open(user)


async def test_a_session_is_its_user_in_every_process_and_after_a_restart(
    here: Process, store: Fickle, clock: ManualClock
) -> None:
    token = await opened(here)
    for process in (here, Process(store, clock)):
        session = await process.sessions.find(token)
        assert session is not None
        assert session.principal == Principal("ann", "ann", ("operator",), ("orders",), "user")
        assert session.csrf == csrf_of(token)
    assert await here.sessions.find(token + "x") is None
    assert await here.sessions.find("") is None


async def test_the_token_is_not_in_the_store(here: Process, store: Fickle) -> None:
    token = await opened(here)
    (document,) = await store.list(SESSIONS)
    assert token not in document.key
    assert token.encode() not in document.value
    assert csrf_of(token).encode() not in document.value


async def test_a_session_ends_after_its_idle_time(here: Process, clock: ManualClock) -> None:
    token = await opened(here)
    for _ in range(4):
        await clock.advance(29 * MINUTE)
        assert await here.sessions.find(token) is not None
    await clock.advance(30 * MINUTE)
    assert await here.sessions.find(token) is None


async def test_a_session_ends_after_its_lifetime_however_it_is_used(here: Process, clock: ManualClock) -> None:
    token = await opened(here)
    for _ in range(71):
        await clock.advance(10 * MINUTE)
        assert await here.sessions.find(token) is not None
    await clock.advance(10 * MINUTE)
    assert await here.sessions.find(token) is None


async def test_use_is_written_once_a_minute_at_most(here: Process, store: Fickle, clock: ManualClock) -> None:
    token = await opened(here)
    for _ in range(300):
        await clock.advance(1)
        await here.sessions.find(token)
    assert (await store.list(SESSIONS))[0].version == 1 + 5


async def test_a_closed_session_ends_in_every_process_at_once(here: Process, store: Fickle, clock: ManualClock) -> None:
    there = Process(store, clock)
    token = await opened(here)
    session = await there.sessions.find(token)
    assert session is not None
    await here.sessions.close(session.id)
    assert await there.sessions.find(token) is None
    store.down = True
    with pytest.raises(StoreUnavailable):
        await here.sessions.find(token)


async def test_a_use_at_the_same_time_does_not_bring_a_closed_session_back(
    here: Process, store: Fickle, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await opened(here)
    (document,) = await store.list(SESSIONS)
    await clock.advance(5 * MINUTE)
    read = store.get

    async def read_and_lose(collection: str, key: str):
        found = await read(collection, key)
        await store.delete(SESSIONS, document.key)
        return found

    monkeypatch.setattr(store, "get", read_and_lose)
    await here.sessions.find(token)
    assert await store.list(SESSIONS) == []


@pytest.mark.parametrize("change", ["password", "removal", "made again"])
async def test_a_session_ends_with_its_users_password(
    here: Process, store: Fickle, clock: ManualClock, change: str
) -> None:
    there = Process(store, clock)
    await here.keyring.create_key(roles=("admin",))
    token = await opened(here)
    assert await there.sessions.find(token) is not None
    if change == "password":
        await here.keyring.set_password("ann")
    else:
        assert await here.keyring.delete_user("ann")
    if change == "made again":
        await here.keyring.add_user("ann", "admin")
    await there.keyring.load()
    for process in (here, there):
        assert await process.sessions.find(token) is None


async def test_a_role_that_changes_holds_for_sessions_that_are_open(here: Process) -> None:
    token = await opened(here)
    await here.keyring.change_user("ann", "viewer", ())
    session = await here.sessions.find(token)
    assert session is not None
    assert (session.principal.roles, session.principal.destinations) == (("viewer",), ())


async def test_a_new_session_holds_where_the_new_password_is_not_known_yet(
    here: Process, store: Fickle, clock: ManualClock
) -> None:
    there = Process(store, clock)
    await there.keyring.load()
    await here.keyring.set_password("ann")
    token = await opened(here)
    assert await there.sessions.find(token) is not None


async def test_while_the_store_is_away_a_session_that_was_seen_holds_on(
    here: Process, store: Fickle, clock: ManualClock
) -> None:
    token, other = await opened(here), await opened(here)
    assert await here.sessions.find(token) is not None
    store.down = True
    assert await here.sessions.find(token) is not None
    with pytest.raises(StoreUnavailable):
        await here.sessions.find(other)
    with pytest.raises(StoreUnavailable):
        await opened(here)
    await clock.advance(30 * MINUTE)
    assert await here.sessions.find(token) is None


async def test_ended_sessions_are_dropped(here: Process, store: Fickle, clock: ManualClock) -> None:
    for _ in range(300):
        await opened(here)
    await clock.advance(20 * MINUTE)
    token = await opened(here)
    await clock.advance(11 * MINUTE)
    assert await here.sessions.expire() == 300
    assert await here.sessions.find(token) is not None


async def test_a_cookie_has_a_session_once_it_was_found_and_until_it_ends(here: Process, clock: ManualClock) -> None:
    token = await here.sessions.open(here.keyring.user("ann"))
    cookies = f"a=b; bus_session=old; __Host-bus_session={token}".encode()
    assert not here.sessions.knows(cookies), "this process has not read it yet"
    assert await here.sessions.find(token) is not None
    assert here.sessions.knows(cookies)
    assert not here.sessions.knows(b"a=b; bus_session=old")
    await clock.advance(LIMITS.lifetime / 1000)
    assert not here.sessions.knows(cookies)


async def test_a_header_has_a_key_or_none(here: Process) -> None:
    secret = await here.keyring.create_key(roles=("producer",))
    header = f"Bearer {secret}".encode()
    assert here.keyring.knows(header)
    assert not here.keyring.knows(header[:-1])
    assert not here.keyring.knows(b"Basic x")
