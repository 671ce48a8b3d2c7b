"""The contract of stores for rows that keep an order."""

# ruff: noqa: D102, S101, PLR2004

from __future__ import annotations

from typing import Any

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import Message, encode_message
from bus.domain.times import DAY
from bus.ports.store import KeyRows, Store
from bus.testing.contracts.store_compensations import LATER, UNTIL, lease_all, resend_of
from bus.testing.contracts.store_traces import LANE, traced
from bus.testing.writes import DESTINATION, NOON, message, outcome

NAMES = ("$set", "", "a", "a.b", "\u00e9", "\U0001f600")
"""Keys that somebody might take for something else."""


def behind(of: Message, key: str, place: int, **changes: Any) -> Outcome:
    """Make what a dispatcher records of a delivery that waits for an earlier one of its key."""
    fields: dict[str, Any] = {"attempt": None, "due_at": of.received_at, "reason": "waits", "tries": 0}
    order = {"message": encode_message(of), "order_key": key, "place": place}
    return outcome(of, "billing", Status.PENDING, 0, **fields | order | changes)


def failed(of: Message, key: str, place: int, attempts: int = 1, **changes: Any) -> Outcome:
    """Make the failure of a delivery that keeps an order."""
    return outcome(of, "billing", Status.RETRYING, attempts, order_key=key, place=place, **changes)


def dead(of: Message, key: str, place: int, attempts: int = 2) -> Outcome:
    """Make the end of a delivery that holds up those behind it."""
    order = {"message": encode_message(of), "order_key": key, "place": place}
    return outcome(of, "billing", Status.DEAD, attempts, reason="500; retries exhausted after 2", **order)


class OrderingContract:
    """The rows of ``bus.ports.store.CompensationStore`` with a place."""

    async def places(self, store: Store, key: str, after: int = 0, limit: int = 100) -> list[int]:
        return [row.place for row in await store.ordered_rows(*LANE, key, after=after, limit=limit)]

    async def test_rows_of_a_key_come_in_the_order_of_their_places(self, store: Store) -> None:
        sent = [message(n) for n in range(40)]
        await store.write([behind(one, "k", 1000 - n) for n, one in enumerate(sent[:20])])
        await store.write([behind(one, "other", n + 1) for n, one in enumerate(sent[20:])])
        assert await self.places(store, "k") == list(range(981, 1001))
        assert await self.places(store, "k", after=990, limit=3) == [991, 992, 993]
        assert await self.places(store, "nobody") == []
        (first,) = await store.ordered_rows(*LANE, "k", limit=1)
        assert (first.message_id, first.message, first.order_key) == (sent[19].id, encode_message(sent[19]), "k")
        assert (first.attempts, first.tries, first.due_at) == (0, 0, sent[19].received_at)

    async def test_keys_with_rows_are_listed(self, store: Store) -> None:
        for number, key in enumerate(NAMES):
            await store.write([behind(message(10 * number + n), key, n + 1) for n in range(number + 1)])
        found = await store.ordered_keys(*LANE)
        assert found == [KeyRows(key, NAMES.index(key) + 1, NAMES.index(key) + 1) for key in sorted(NAMES)]
        assert await store.ordered_keys(*LANE, after="", limit=2) == found[1:3]
        assert await store.ordered_keys(*LANE, after=found[-1].order_key) == []
        assert await store.ordered_keys(DESTINATION, "mail") == []
        for number, key in enumerate(NAMES):
            assert await self.places(store, key) == [n + 1 for n in range(number + 1)]

    async def test_nobody_leases_them(self, store: Store) -> None:
        await store.write([behind(message(1), "k", 1), failed(message(2), "k", 2), dead(message(3), "k", 3)])
        assert await store.due(NOON) == {LANE: 3}
        assert await store.next_due() is None
        assert await store.unfinished(LATER) == {LANE: (3, 0, None)}
        assert await lease_all(store, LATER + DAY, UNTIL + DAY) == []
        await store.write([outcome(message(4), "billing", Status.RETRYING)])
        assert await store.next_due() == outcome(message(4), "billing", Status.RETRYING).due_at
        assert [row.message_id for row in await lease_all(store, LATER)] == [message(4).id]
        assert await store.reclaim("") == 1
        assert await store.rewind(NOON - DAY, 0) == 4
        assert (await store.unfinished(LATER))[LANE].rows == 4
        assert [row.message_id for row in await lease_all(store, LATER)] == [message(4).id]

    async def test_a_wait_is_told_and_a_failure_keeps_the_place(self, store: Store) -> None:
        sent = message(1)
        await store.write([sent, behind(sent, "k", 7)])
        delivery = (await traced(store, sent.id)).deliveries["billing"]
        assert (delivery.status, delivery.reason) == (Status.PENDING, "waits")
        assert await store.unsettled(*LANE, LATER, 10) == []
        assert await store.unsettled(DESTINATION, "mail", LATER, 10) == [sent]
        await store.write([failed(sent, "k", 7, due_at=LATER)])
        await store.write([behind(sent, "k", 9)])
        (row,) = await store.ordered_rows(*LANE, "k", limit=10)
        assert (row.place, row.attempts, row.due_at) == (7, 1, LATER)
        assert (await traced(store, sent.id)).deliveries["billing"].status is Status.RETRYING

    async def test_one_that_is_dead_holds_up_its_key_until_somebody_decides(self, store: Store) -> None:
        for number, decision in enumerate(("resend", "park")):
            sent, key = message(number), f"k{number}"
            await store.write([sent, failed(sent, key, 5)])
            await store.write([dead(sent, key, 5)])
            (row,) = await store.ordered_rows(*LANE, key, limit=10)
            assert (row.place, row.attempts, row.due_at) == (5, 2, 0)
            assert (await traced(store, sent.id)).deliveries["billing"].status is Status.DEAD
            await store.write([failed(sent, key, 5), dead(sent, key, 5)])
            assert await self.places(store, key) == [5]
            if decision == "resend":
                await store.write([resend_of(sent)])
                (row,) = await store.ordered_rows(*LANE, key, limit=10)
                assert (row.place, row.generation, row.attempts, row.order_key) == (5, 1, 1, key)
                assert await store.next_due() is None
                await store.write([outcome(sent, "billing", Status.DELIVERED, 3, generation=1)])
            else:
                await store.write([outcome(sent, "billing", Status.PARKED, 2, generation=1, attempt=None)])
            assert await self.places(store, key) == []
            await store.write([dead(sent, key, 5), failed(sent, key, 5)])
            assert await self.places(store, key) == []

    async def test_they_go_with_their_subscription(self, store: Store) -> None:
        sent = [message(n) for n in range(3)]
        await store.write([*sent, behind(sent[0], "k", 1), failed(sent[1], "k", 2), dead(sent[2], "k", 3)])
        assert await store.cancel(*LANE, LATER) == 2
        assert await store.ordered_keys(*LANE) == []
        assert await store.due(NOON) == {}

    async def test_ends_delete_them(self, store: Store) -> None:
        sent = [message(n) for n in range(4)]
        await store.write([behind(one, "k", n + 1) for n, one in enumerate(sent)])
        for one, status in zip(sent, (Status.DELIVERED, Status.DEAD, Status.PARKED, Status.SKIPPED), strict=True):
            await store.write([outcome(one, "billing", status)])
        assert await store.due(NOON) == {}
