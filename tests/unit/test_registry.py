"""The configuration: durable, then told to the listeners, then in force; one change at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.domain.catalog import Catalog
from bus.domain.delivery.retry import Exponential, RetryPolicy, Schedule
from bus.domain.destination import Destination
from bus.domain.subscription import Secret, Subscription
from bus.errors import ConfigurationError, Conflict, NotFound, SpoolError, StoreError
from bus.registry import (
    COLLECTIONS,
    MARK,
    REMOVED,
    SUBSCRIPTIONS,
    Preference,
    Rates,
    Registry,
)
from bus.security.secrets import SecretBox
from bus.stores.snapshot import Snapshot
from bus.testing.store import MemoryStore

ORDERS = Destination(code="orders", store_rate=5.0)
BILLING = Subscription(destination="orders", name="billing", url="http://a.example/", secrets=(Secret("whsec_x"),))


class Slow(MemoryStore):
    """A store whose writes of documents take a turn of the loop."""

    async def put(self, collection, key, value, *, version=None):
        await asyncio.sleep(0)
        return await super().put(collection, key, value, version=version)

    async def delete(self, collection, key):
        await asyncio.sleep(0)
        return await super().delete(collection, key)


@pytest.fixture
async def store() -> MemoryStore:
    return Slow()


@pytest.fixture
async def registry(store: MemoryStore) -> Registry:
    registry = Registry(store, SecretBox(None))
    await registry.load()
    return registry


async def reloaded(store: MemoryStore, box: SecretBox | None = None) -> Registry:
    registry = Registry(store, box or SecretBox(None))
    await registry.load()
    return registry


async def test_what_is_put_is_in_force_and_there_after_a_restart(registry: Registry, store: MemoryStore) -> None:
    orders = await registry.put_destination(ORDERS)
    billing = await registry.put_subscription(BILLING)
    assert (orders.version, billing.version) == (1, 1)
    for one in (registry, await reloaded(store)):
        assert one.destination("orders") == orders
        assert one.subscription("orders", "billing") == billing
        assert one.catalog.names("orders") == ("billing",)
        assert one.store_rate("orders") == 5.0
        assert one.store_rate("nothing") is None


waits = st.builds(Schedule, st.lists(st.integers(0, 10**9), min_size=1, max_size=4).map(tuple)) | st.builds(
    Exponential, st.integers(1, 10**9), st.floats(1, 100), st.integers(1, 10**9)
)


@given(
    st.builds(
        Subscription,
        destination=st.just("orders"),
        name=st.text(max_size=10),
        url=st.text(max_size=10),
        rate=st.none() | st.floats(0.001, 1e6),
        retry=st.builds(RetryPolicy, waits, st.integers(0, 10**12), st.none() | st.integers(1, 10**6)),
        secrets=st.lists(st.builds(Secret, st.text(max_size=5), st.integers(0, 10**13)), max_size=2).map(tuple),
        headers=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
        filter=st.none() | st.text(max_size=5),
    )
)
def test_a_subscription_comes_back_as_it_was(subscription: Subscription) -> None:
    async def run() -> None:
        store = MemoryStore()
        stored = await (await reloaded(store)).put_subscription(subscription)
        (found,) = (await reloaded(store)).catalog.subscriptions.values()
        assert found == stored

    asyncio.run(run())


async def test_listeners_are_told_in_turn_before_a_new_subscription_is_in_force(registry: Registry) -> None:
    told: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = []

    def listener(name: str):
        async def listen(catalog: Catalog) -> None:
            told.append((name, catalog.names("orders"), registry.catalog.names("orders")))
            await asyncio.sleep(0)

        return listen

    await registry.put_destination(ORDERS)
    registry.listen(listener("transports"))
    registry.listen(listener("dispatcher"))
    await registry.put_subscription(BILLING)
    assert told == [("transports", ("billing",), ()), ("dispatcher", ("billing",), ())]
    assert registry.catalog.names("orders") == ("billing",)


async def test_a_removed_subscription_is_expected_by_no_message_while_its_queue_goes(registry: Registry) -> None:
    await registry.put_destination(ORDERS)
    await registry.put_subscription(BILLING)
    seen: list[tuple[str, ...]] = []

    async def listen(_: Catalog) -> None:
        seen.append(registry.catalog.names("orders"))

    registry.listen(listen)
    await registry.remove_subscription("orders", "billing")
    assert seen == [()]


async def test_a_change_that_the_store_does_not_take_is_not_in_force(registry: Registry, store: MemoryStore) -> None:
    told: list[Catalog] = []

    async def listen(catalog: Catalog) -> None:
        told.append(catalog)

    registry.listen(listen)
    await store.put("destinations", "orders", b"{}")
    with pytest.raises(Conflict):
        await registry.put_destination(ORDERS)
    assert told == []
    assert registry.catalog.destinations == {}


async def test_of_two_who_change_the_same_version_one_is_told_so(registry: Registry) -> None:
    await registry.put_destination(ORDERS)
    known = await registry.put_subscription(BILLING)
    changes = [msgspec.structs.replace(known, url=f"http://{n}.example/") for n in "ab"]
    results = await asyncio.gather(*map(registry.put_subscription, changes), return_exceptions=True)
    assert {type(result) for result in results} == {Subscription, Conflict}
    assert registry.subscription("orders", "billing") in results


async def test_many_changes_at_once_all_count(registry: Registry, store: MemoryStore) -> None:
    names = [f"s{n}" for n in range(20)]
    await registry.put_destination(ORDERS)
    await asyncio.gather(
        *(registry.put_subscription(msgspec.structs.replace(BILLING, name=name)) for name in names),
        *(registry.put_destination(Destination(code=name)) for name in names),
    )
    for one in (registry, await reloaded(store)):
        assert set(one.catalog.names("orders")) == set(names)
        assert set(one.catalog.destinations) == {"orders", *names}


async def test_pausing_twice_at_once_pauses_once(registry: Registry) -> None:
    await registry.put_destination(ORDERS)
    await registry.put_subscription(BILLING)
    await asyncio.gather(*(registry.pause(BILLING.key, f"reason {n}") for n in range(5)))
    found = registry.subscription("orders", "billing")
    assert (found.paused, found.paused_reason, found.version) == (True, "reason 0", 2)


async def test_pausing_while_somebody_else_changes_it_loses_neither_change(registry: Registry) -> None:
    await registry.put_destination(ORDERS)
    known = await registry.put_subscription(BILLING)
    changed = msgspec.structs.replace(known, url="http://new.example/")
    await asyncio.gather(registry.put_subscription(changed), registry.pause(BILLING.key, "410"))
    found = registry.subscription("orders", "billing")
    assert (found.url, found.paused) == ("http://new.example/", True)


async def test_pausing_what_is_being_removed_does_not_bring_it_back(registry: Registry, store: MemoryStore) -> None:
    await registry.put_destination(ORDERS)
    await registry.put_subscription(BILLING)
    await asyncio.gather(registry.remove_subscription(*BILLING.key), registry.pause(BILLING.key, "410"))
    assert registry.catalog.subscriptions == {}
    assert await store.list(SUBSCRIPTIONS) == []


async def test_what_is_removed_is_gone_after_a_restart(registry: Registry, store: MemoryStore) -> None:
    await registry.put_destination(ORDERS)
    await registry.put_subscription(BILLING)
    await registry.remove_subscription("orders", "billing")
    await registry.remove_destination("orders")
    for one in (registry, await reloaded(store)):
        assert (one.catalog.destinations, one.catalog.subscriptions) == ({}, {})
        with pytest.raises(NotFound, match="there is no destination 'orders'"):
            one.destination("orders")
        with pytest.raises(NotFound, match="there is no subscription 'billing' of 'orders'"):
            one.subscription("orders", "billing")


async def test_rates_are_in_force_at_once_and_after_a_restart(registry: Registry, store: MemoryStore) -> None:
    assert registry.rates == Rates(None, None)
    await registry.set_rates(Rates(100, None))
    assert registry.rates == (await reloaded(store)).rates == Rates(100, None)


async def test_the_preferred_cluster_is_told_to_the_listeners_and_there_after_a_restart(
    registry: Registry, store: MemoryStore
) -> None:
    heard: list[Preference] = []

    async def listener(_: Catalog) -> None:
        heard.append(registry.preference)

    registry.listen(listener)
    assert registry.preference == Preference(None)
    for chosen in (Preference("rabbitmq-backup"), Preference(None)):
        await registry.set_preference(chosen)
        assert heard[-1] == registry.preference == (await reloaded(store)).preference == chosen


async def test_secrets_rest_sealed_and_open_with_the_same_key_only(store: MemoryStore) -> None:
    box = SecretBox("k" * 32)
    registry = await reloaded(store, box)
    await registry.put_destination(ORDERS)
    stored = await registry.put_subscription(BILLING)
    assert stored.secrets == BILLING.secrets
    (document,) = await store.list(SUBSCRIPTIONS)
    assert b"whsec_x" not in document.value
    assert (await reloaded(store, box)).subscription("orders", "billing").secrets == BILLING.secrets
    with pytest.raises(ConfigurationError):
        await reloaded(store, SecretBox("other" * 8))


async def test_secrets_are_sealed_again_with_a_new_key(store: MemoryStore) -> None:
    old, both, new = SecretBox("k" * 32), SecretBox("n" * 32, "k" * 32), SecretBox("n" * 32)
    registry = await reloaded(store, old)
    await registry.put_destination(ORDERS)
    await registry.put_subscription(BILLING)
    changing = await reloaded(store, both)
    assert await changing.stale() == 1
    assert (await changing.reseal(), await changing.stale(), await changing.reseal()) == (1, 0, 0)
    assert changing.subscription("orders", "billing").secrets == BILLING.secrets
    after = await reloaded(store, new)
    assert after.subscription("orders", "billing") == changing.subscription("orders", "billing")
    await after.put_subscription(after.subscription("orders", "billing"))
    before = registry.revision
    with pytest.raises(ConfigurationError):
        await registry.refresh()
    assert registry.latest > registry.revision == before


async def test_changes_of_two_processes_at_once_are_seen_by_both(store: MemoryStore) -> None:
    ours, theirs = await reloaded(store), await reloaded(store)
    await asyncio.gather(ours.put_destination(ORDERS), theirs.put_destination(Destination(code="paid")))
    await ours.refresh()
    await theirs.refresh()
    assert set(ours.catalog.destinations) == set(theirs.catalog.destinations) == {"orders", "paid"}


class CountingBox(SecretBox):
    """Counts the secrets that it opens."""

    opened = 0

    def open(self, value: str) -> str:
        self.opened += 1
        return super().open(value)


async def test_a_load_decodes_what_has_changed_and_nothing_else(store: MemoryStore) -> None:
    theirs, box = await reloaded(store), CountingBox(None)
    await theirs.put_destination(ORDERS)
    for number in range(5):
        await theirs.put_subscription(msgspec.structs.replace(BILLING, name=f"s{number}"))
    ours = await reloaded(store, box)
    assert box.opened == 5
    before = ours.catalog
    await ours.load()
    assert box.opened == 5
    assert all(ours.catalog.subscriptions[key] is found for key, found in before.subscriptions.items())
    changed = await theirs.put_subscription(
        msgspec.structs.replace(theirs.subscription("orders", "s1"), url="http://b/")
    )
    await theirs.remove_subscription("orders", "s2")
    await ours.load()
    assert box.opened == 6
    assert ours.subscription("orders", "s1") == changed
    assert ours.catalog.names("orders") == ("s0", "s1", "s3", "s4")


async def test_what_was_removed_here_and_made_again_as_it_was_is_in_force_again(store: MemoryStore) -> None:
    ours, theirs = await reloaded(store), await reloaded(store)
    await ours.put_destination(ORDERS)
    await ours.load()
    await ours.remove_destination("orders")
    await theirs.put_destination(ORDERS)
    await ours.load()
    assert ours.destination("orders") == theirs.destination("orders")


async def test_what_a_listener_did_not_take_is_not_taken_for_known(registry: Registry, store: MemoryStore) -> None:
    left = ["full"]

    async def listener(_: Catalog) -> None:
        if left:
            raise SpoolError(left.pop())

    registry.listen(listener)
    await (await reloaded(store)).put_destination(ORDERS)
    with pytest.raises(SpoolError):
        await registry.load()
    assert "orders" not in registry.catalog.destinations
    await registry.load()
    assert registry.destination("orders").version == 1


async def test_a_state_is_in_force_once_the_listeners_have_it(store: MemoryStore) -> None:
    """The others take the revision that a process tells for its confirmation."""
    ours, theirs = await reloaded(store), await reloaded(store)
    gate = asyncio.Event()

    async def listener(_: Catalog) -> None:
        await gate.wait()

    ours.listen(listener)
    await theirs.put_destination(ORDERS)
    loading = asyncio.create_task(ours.refresh())
    while ours.latest < theirs.revision:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(0)
    assert ours.revision < theirs.revision
    gate.set()
    await loading
    assert ours.revision == theirs.revision
    putting = asyncio.create_task(ours.put_destination(Destination(code="paid")))
    await asyncio.wait([putting])
    assert ours.revision == ours.latest > theirs.revision


async def test_a_change_is_the_latest_state_also_when_another_process_made_one_before(store: MemoryStore) -> None:
    ours, theirs = await reloaded(store), await reloaded(store)
    await theirs.put_destination(Destination(code="paid"))
    await theirs.pause(("paid", "none"), "")
    before = ours.revision
    await ours.put_destination(ORDERS)
    assert (ours.latest, ours.revision) == (theirs.revision + 1, before)
    await ours.refresh()
    assert ours.revision == ours.latest


async def test_a_change_that_could_not_be_put_in_force_comes_into_force_by_itself(
    registry: Registry, store: MemoryStore
) -> None:
    left = ["full"]

    async def listener(_: Catalog) -> None:
        if left:
            raise SpoolError(left.pop())

    registry.listen(listener)
    with pytest.raises(SpoolError):
        await registry.put_destination(ORDERS)
    assert "orders" not in registry.catalog.destinations
    await registry.refresh()
    assert registry.destination("orders").version == 1


class Full(MemoryStore):
    """A store whose writes of documents fail once ``left`` is 0."""

    left = 100

    async def put(self, collection, key, value, *, version=None):
        if not self.left:
            raise StoreError("the disk is full")
        self.left -= 1
        return await super().put(collection, key, value, version=version)


@pytest.mark.parametrize("kept", range(3))
async def test_a_change_that_is_stored_in_part_comes_into_force_everywhere(kept: int) -> None:
    store = Full()
    ours, theirs = await reloaded(store), await reloaded(store)
    orders = await ours.put_destination(ORDERS)
    store.left = kept
    billing, audit = BILLING, msgspec.structs.replace(BILLING, name="audit")
    with pytest.raises(StoreError):
        await ours.put_all([orders], [billing, audit])
    with pytest.raises(StoreError):
        await ours.refresh()
    store.left = 100
    for registry in (ours, theirs):
        await registry.refresh()
        assert registry.destination("orders").version == 1 + (kept > 0)
        assert len(registry.catalog.subscriptions) == max(0, kept - 1)
    if kept == 0:  # what is not in the store can be put again
        assert await ours.put_subscription(billing)
    else:
        with pytest.raises(Conflict):
            await theirs.put_destination(orders)


async def test_what_another_process_stored_and_did_not_note_is_found_by_a_conflict(store: MemoryStore) -> None:
    ours, theirs = await reloaded(store), await reloaded(store)
    await store.put("destinations", "orders", msgspec.json.encode(ORDERS))
    with pytest.raises(Conflict):
        await ours.put_destination(ORDERS)
    for registry in (ours, theirs):
        await registry.refresh()
        assert registry.destination("orders").version == 1


async def test_what_was_removed_is_remembered_until_it_is_made_again(registry: Registry, store: MemoryStore) -> None:
    await registry.put_destination(ORDERS)
    stored = await registry.put_subscription(BILLING)
    assert not registry.catalog.is_gone(*BILLING.key)
    await registry.remove_subscription(*BILLING.key)
    await registry.remove_destination("orders")
    for one in (registry, await reloaded(store)):
        assert one.catalog.is_gone(*BILLING.key)
        assert one.catalog.has_left("orders")
        assert not one.catalog.is_gone("orders", "mail")
        assert not one.catalog.has_left("shop")
    await registry.put_destination(ORDERS)
    await registry.put_subscription(msgspec.structs.replace(stored, version=0))
    for one in (registry, await reloaded(store)):
        assert not one.catalog.is_gone(*BILLING.key)
        assert not one.catalog.has_left("orders")
    assert await store.list(REMOVED) == []


async def test_of_what_was_removed_the_latest_are_remembered(
    registry: Registry, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.registry.MOST_REMOVED", 2)
    for code in ("c", "a", "b"):
        await registry.put_destination(Destination(code=code))
        await registry.remove_destination(code)
    assert [found.key for found in await store.list(REMOVED)] == ["a", "b"]


async def test_what_was_removed_in_a_store_that_was_emptied_is_remembered_before_what_was_put_back(
    registry: Registry, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bus.registry.MOST_REMOVED", 2)
    for code in ("x", "y"):
        await store.put(REMOVED, code, b"4000")
    await registry.put_destination(ORDERS)
    await registry.remove_destination("orders")
    assert "orders" in {found.key for found in await store.list(REMOVED)}
    assert registry.catalog.has_left("orders")


@pytest.fixture
async def restored(store: MemoryStore, tmp_path: Path) -> Registry:
    """Return one whose store was emptied: a destination with two subscriptions was put back, and one changed since."""
    sealed = SecretBox(None)
    before = Registry(Snapshot(store, tmp_path, COLLECTIONS, MARK), sealed)
    await before.put_destination(ORDERS)
    await before.put_subscription(BILLING)
    await before.put_subscription(msgspec.structs.replace(BILLING, name="mail"))
    await before.load()
    after = Registry(Snapshot(MemoryStore(), tmp_path, COLLECTIONS, MARK), sealed)
    await after.load()
    await after.pause(("orders", "mail"), "changed since")
    return after


async def test_a_running_process_puts_back_what_its_store_loses(store: MemoryStore, tmp_path: Path) -> None:
    registry = Registry(Snapshot(store, tmp_path, COLLECTIONS, MARK), SecretBox(None))
    await registry.put_destination(ORDERS)
    await registry.put_subscription(BILLING)
    await registry.load()
    for collection in COLLECTIONS:
        for found in await store.list(collection):
            await store.delete(collection, found.key)
    await registry.refresh()
    assert registry.catalog.names("orders") == ("billing",)
    assert "--accept-empty-store" in str(registry.trouble)


async def test_what_was_put_back_stays_when_a_person_says_so(restored: Registry) -> None:
    assert restored.trouble
    await restored.keep_put_back()
    assert restored.trouble == ""
    await restored.load()
    assert restored.trouble == ""
    assert set(restored.catalog.names("orders")) == {"billing", "mail"}


async def test_an_emptied_store_that_is_accepted_keeps_what_was_changed_since(restored: Registry) -> None:
    await restored.accept_emptied(["shop", "shop/billing", "orders/mail"])
    assert restored.trouble == ""
    assert restored.catalog.names("orders") == ("mail",)
    assert restored.catalog.is_gone("orders", "billing")
    assert restored.catalog.is_gone("shop", "billing")
    assert restored.catalog.has_left("shop")
    assert not restored.catalog.is_gone("orders", "mail")
