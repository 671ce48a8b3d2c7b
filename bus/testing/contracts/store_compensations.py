"""The contract of stores for unfinished work."""

# ruff: noqa: D102, S101, PLR2004

from __future__ import annotations

import asyncio
from collections import Counter

from bus.domain.delivery.delivery import Compensation, Origin, Outcome, Status
from bus.domain.message import Message, encode_message
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.ports.store import Store
from bus.testing.contracts.store_traces import LANE, search_all, traced
from bus.testing.writes import DESTINATION, NOON, message, outcome, row

LATER = NOON + 3_600_000
UNTIL = LATER + 60_000
MAIL = (DESTINATION, "mail")
MANY = 600


def resend_of(one: Message) -> Outcome:
    """Make what a person's resend records."""
    copy = encode_message(one)
    return outcome(one, "billing", Status.RESEND, generation=1, attempt=None, due_at=NOON, message=copy)


async def lease_all(store: Store, now: int = LATER, until: int = UNTIL) -> list[Compensation]:
    """Take everything that two subscriptions have."""
    return await store.lease(now, until, {LANE: 10_000, MAIL: 10_000, (DESTINATION, ""): 10_000}, 100_000)


class CompensationContract:
    """The behaviour of ``bus.ports.store.CompensationStore``, and of ``write`` towards it."""

    async def test_a_failed_outcome_makes_a_row_that_carries_the_delivery_on(self, store: Store) -> None:
        failed = outcome(message(), "billing", Status.RETRYING, 3, tries=2)
        await store.write([failed])
        assert await store.due(NOON) == {LANE: 1}
        assert await store.next_due() == failed.due_at
        (leased,) = await lease_all(store)
        assert (leased.message_id, leased.destination, leased.subscription) == (message().id, *LANE)
        assert (leased.generation, leased.attempts, leased.tries, leased.since) == (0, 3, 2, failed.since)
        assert (leased.message, leased.by, leased.due_at) == (failed.message, Origin.RETRY, failed.due_at)
        assert (leased.epoch, leased.lease_until) == (1, UNTIL)

    async def test_each_end_of_a_delivery_deletes_its_row(self, store: Store) -> None:
        ends = (Status.DELIVERED, Status.DEAD, Status.CANCELED, Status.SKIPPED, Status.PARKED)
        for number, status in enumerate(ends):
            sent = message(number)
            await store.write([sent, outcome(sent, "billing", Status.RETRYING)])
            await store.write([outcome(sent, "mail", status, 9)])
            assert await store.due(NOON) == {LANE: 1}
            await store.write([outcome(sent, "billing", status, 2)])
            assert await store.due(NOON) == {}
            await store.write([outcome(sent, "billing", Status.RETRYING)])
            assert await store.due(NOON) == {}
        assert await store.next_due() is None
        assert await lease_all(store) == []

    async def test_a_transport_outcome_deletes_the_row_of_a_claim(self, store: Store) -> None:
        sent = message()
        await store.write([sent])
        await store.compensate([row(sent, attempts=0, by=Origin.STUCK)])
        await store.write([outcome(sent, "billing", Status.DELIVERED)])
        assert await store.due(NOON) == {}

    async def test_the_greatest_generation_and_attempts_stay(self, store: Store) -> None:
        rows = [row(message(), generation=g, attempts=a, due_at=NOON + a) for g, a in ((0, 2), (0, 9), (1, 1), (1, 3))]
        for one in (rows[1], rows[0], rows[3], rows[2], rows[1], rows[3]):
            await store.compensate([one])
        assert await store.due(NOON) == {LANE: 1}
        await store.write([outcome(message(), "billing", Status.DELIVERED, 9)])
        await store.finish(rows[:2])
        (leased,) = await lease_all(store)
        assert (leased.generation, leased.attempts, leased.due_at) == (1, 3, NOON + 3)
        await store.finish([leased])
        assert await store.due(NOON) == {}

    async def test_of_rows_of_one_age_the_first_stays(self, store: Store) -> None:
        rows = [row(message(), attempts=attempts, due_at=NOON + n) for n, attempts in enumerate((1, 2, 2, 1))]
        await store.compensate(rows)
        await store.compensate(rows[2:])
        assert await store.next_due() == NOON + 1
        (leased,) = await lease_all(store)
        assert (leased.attempts, leased.due_at) == (2, NOON + 1)

    async def test_a_new_failure_clears_the_lease(self, store: Store) -> None:
        await store.compensate([row(message())])
        (old,) = await lease_all(store)
        failed = outcome(message(), "billing", Status.RETRYING, 2, due_at=LATER + 5)
        await store.write([failed])
        assert await store.next_due() == LATER + 5
        (new,) = await lease_all(store, LATER + 5, UNTIL + 5)
        assert new.epoch > old.epoch
        await store.unlease([old])
        assert await lease_all(store, LATER + 6) == []

    async def test_an_outcome_leases_its_row_to_who_retries_it(self, store: Store) -> None:
        sent = message()
        failed = outcome(sent, "billing", Status.RETRYING, attempts=1, due_at=NOON, owner="here", lease_until=LATER)
        await store.write([sent, failed])
        assert await lease_all(store, LATER - 1) == []
        assert await store.next_due() == LATER
        (leased,) = await lease_all(store, LATER, LATER + 1)
        assert (leased.attempts, leased.due_at, leased.epoch) == (1, NOON, 1)
        again = outcome(sent, "billing", Status.RETRYING, attempts=2, due_at=NOON, owner="here", lease_until=LATER + 9)
        await store.write([again])
        assert await lease_all(store, LATER + 8) == []
        assert await store.reclaim("there") == 0
        assert await store.reclaim("here") == 1
        assert len(await lease_all(store, LATER + 8)) == 1

    async def test_a_lease_holds_until_its_time(self, store: Store) -> None:
        await store.compensate([row(message(n), due_at=NOON + 10 * n) for n in range(3)])
        assert await store.next_due() == NOON
        assert [one.due_at for one in await lease_all(store, NOON + 10)] == [NOON, NOON + 10]
        assert await store.next_due() == NOON + 20
        assert len(await lease_all(store, NOON + 30)) == 1
        assert await lease_all(store, UNTIL - 1) == []
        assert await store.next_due() == UNTIL
        again = await lease_all(store, UNTIL, UNTIL + 1)
        assert [one.epoch for one in again] == [2, 2, 2]
        assert await store.due(NOON) == {LANE: 3}

    async def test_a_lease_is_over_by_the_time_that_is_given_for_leases(self, store: Store) -> None:
        await store.compensate([row(message(n), due_at=NOON + n) for n in range(3)])
        assert len(await store.lease(NOON, UNTIL, {LANE: 9}, 9, over=NOON - 1000)) == 1
        late = UNTIL + 1000
        free = await store.lease(late, late + 1, {LANE: 9}, 9, over=UNTIL - 1)
        assert [one.message_id for one in free] == [message(1).id, message(2).id]
        (again,) = await store.lease(late, late + 1, {LANE: 9}, 9, over=UNTIL)
        assert (again.message_id, again.epoch) == (message(0).id, 2)

    async def test_ready_has_the_subscriptions_with_rows_that_can_be_leased(self, store: Store) -> None:
        assert await store.ready(LATER) == set()
        await store.compensate([row(message(n), due_at=NOON + n) for n in range(MANY)])
        await store.compensate([row(message(1), "mail", due_at=LATER), row(message(2), "", due_at=LATER + 1)])
        assert await store.ready(NOON - 1) == set()
        assert await store.ready(NOON) == {LANE}
        assert await store.ready(LATER) >= {LANE, MAIL}
        await lease_all(store, LATER)
        assert await store.ready(LATER + 1) == {(DESTINATION, "")}
        assert await store.ready(UNTIL) >= {LANE, MAIL, (DESTINATION, "")}

    async def test_what_a_clock_set_that_was_ahead_keeps_its_wait(self, store: Store) -> None:
        ahead = NOON + DAY
        late = [row(message(n), due_at=ahead + 5_000 * n, set_at=ahead) for n in (1, 2)]
        near = row(message(3), due_at=NOON + 9_000, set_at=NOON + 4_000)
        chosen = row(message(4), "", due_at=ahead + 7_000, set_at=ahead)
        await store.compensate([*late, near, chosen])
        assert await store.rewind(ahead, 0) == 0
        assert await store.rewind(NOON, 4_000) == 3
        assert await store.rewind(NOON, 4_000) == 0
        assert await store.next_due() == NOON + 5_000
        leased = await lease_all(store, NOON + 10_000, NOON + 20_000)
        assert [one.due_at for one in leased] == [NOON + 5_000, NOON + 9_000, NOON + 10_000]
        assert await store.next_due() == NOON + 20_000
        await store.finish(leased)
        assert await store.next_due() == ahead + 7_000

    async def test_a_lease_that_a_clock_gave_which_was_ahead_keeps_its_length(self, store: Store) -> None:
        ahead = NOON + DAY
        await store.compensate([row(message(1)), row(message(2), "", due_at=NOON + 1)])
        assert len(await lease_all(store, ahead, ahead + 60_000)) == 2
        assert await store.rewind(NOON + 10, 0) == 2
        assert await store.next_due() == NOON + 60_010
        assert await lease_all(store, NOON + 60_009) == []
        again = await lease_all(store, NOON + 60_010)
        assert [one.epoch for one in again] == [2, 2]

    async def test_it_tells_of_each_subscription_what_waits_and_what_is_due(self, store: Store) -> None:
        assert await store.unfinished(NOON) == {}
        await store.compensate([row(message(n), due_at=NOON + 10 * n) for n in range(3)])
        await store.compensate([row(message(3), "mail", due_at=LATER + 1)])
        assert await store.unfinished(NOON + 10) == {LANE: (3, 2, NOON), MAIL: (1, 0, LATER + 1)}
        assert len(await lease_all(store, NOON)) == 1
        assert await store.unfinished(NOON + 10) == {LANE: (3, 1, NOON + 10), MAIL: (1, 0, LATER + 1)}
        assert (await store.unfinished(UNTIL))[LANE] == (3, 3, NOON + 10)

    async def test_unlease_is_fenced(self, store: Store) -> None:
        await store.compensate([row(message())])
        (first,) = await lease_all(store, LATER, LATER + 1)
        (second,) = await lease_all(store, LATER + 1, UNTIL)
        await store.unlease([first])
        assert await lease_all(store, LATER + 2) == []
        await store.unlease([second, second])
        assert await store.next_due() == row(message()).due_at
        (third,) = await lease_all(store, LATER + 2)
        assert third.epoch > second.epoch

    async def test_lease_goes_round_robin_within_room_and_limit(self, store: Store) -> None:
        await store.compensate([row(message(n), "billing", due_at=NOON + n) for n in range(MANY)])
        await store.compensate([row(message(n), "mail", due_at=NOON + 50_000) for n in range(20)])
        taken = await store.lease(LATER, UNTIL, {LANE: 10_000, MAIL: 10_000}, 30)
        assert Counter(one.subscription for one in taken) == {"billing": 15, "mail": 15}
        taken = await store.lease(LATER, UNTIL, {LANE: 7, MAIL: 10_000, (DESTINATION, "nobody"): 9}, 30)
        assert Counter(one.subscription for one in taken) == {"billing": 7, "mail": 5}
        taken = await store.lease(LATER, UNTIL, {LANE: 10_000, MAIL: 0}, 30)
        assert [one.due_at for one in taken] == [NOON + n for n in range(22, 52)]
        assert await store.lease(LATER, UNTIL, {}, 30) == []
        assert await store.lease(LATER, UNTIL, {LANE: 5}, 0) == []

    async def test_every_subscription_gets_its_turn_when_the_limit_is_small(self, store: Store) -> None:
        names = [f"s{n}" for n in range(10)]
        await store.compensate([row(message(n), name) for n in range(5) for name in names])
        room = {(DESTINATION, name): 100 for name in names}
        served = Counter([one.subscription for _ in range(10) for one in await store.lease(LATER, UNTIL, room, 3)])
        assert set(served) == set(names)
        assert set(served.values()) == {3}

    async def test_two_who_lease_at_the_same_time_share_nothing(self, store: Store) -> None:
        await store.compensate([row(message(n)) for n in range(100)])
        leases = await asyncio.gather(*(store.lease(LATER, UNTIL, {LANE: 40}, 40) for _ in range(4)))
        ids = [one.message_id for taken in leases for one in taken]
        assert len(ids) == len(set(ids)) == 100

    async def test_cancel_ends_what_is_open(self, store: Store) -> None:
        sent = [message(n) for n in range(320)]
        await store.write(sent)
        await store.write([outcome(one, "billing", Status.DELIVERED) for one in sent[:30]])
        await store.write([outcome(one, "billing", Status.RETRYING) for one in sent[30:60]])
        await store.write([outcome(one, "mail", Status.DEAD) for one in sent[:100]])
        await store.compensate([row(message(1_000)), row(message(1_001), "mail")])
        assert await store.cancel(*LANE, LATER) == 291
        assert await store.due(NOON) == {MAIL: 1}
        delivery = (await traced(store, sent[45].id)).deliveries["billing"]
        assert (delivery.status, delivery.reason, delivery.at) == (Status.CANCELED, "subscription removed", LATER)
        assert (await traced(store, sent[0].id)).deliveries["billing"].status is Status.DELIVERED
        canceled = Selection(destination=DESTINATION, subscription="billing", status=Status.CANCELED)
        assert len(await search_all(store, canceled, 500)) == 290
        assert await store.unsettled(*LANE, LATER, 10) == []
        assert await store.cancel(*LANE, LATER) == 0

    async def test_cancel_tells_once_of_each_delivery_that_it_ended(self, store: Store) -> None:
        sent = [message(n) for n in range(320)]
        await store.write(sent)
        await store.write([outcome(one, "billing", Status.DELIVERED) for one in sent[:30]])
        await store.write([outcome(one, "billing", Status.RETRYING) for one in sent[30:60]])
        await store.write([resend_of(sent[0])])
        unknown = message(1_000)
        await store.compensate([row(unknown), row(message(1_001), "mail"), row(message(1_002), "")])
        told: list[Outcome] = []
        assert await store.cancel(*LANE, LATER, told.extend) == 292
        assert sorted(one.message_id for one in told) == sorted(one.id for one in [sent[0], *sent[30:], unknown])
        assert {(one.destination, one.subscription, one.status, one.at) for one in told} == {
            (*LANE, Status.CANCELED, LATER)
        }
        assert {one.message_id for one in told if one.generation} == {sent[0].id}
        told.clear()
        assert await store.cancel(*LANE, LATER, told.extend) == 0
        assert told == []

    async def test_cancel_leaves_messages_received_later_alone(self, store: Store) -> None:
        until = message(100).received_at
        old, new = [message(n) for n in (0, 1, 2, 3, 4, 100)], [message(n) for n in (101, 201, 202, 203, 204, 205)]
        for pending, failed, resent, unknown, outcome_first, last in (old, new):
            await store.write([pending, failed, resent, last])
            await store.write([outcome(one, "billing", Status.RETRYING) for one in (failed, outcome_first)])
            await store.write([resend_of(resent)])
            await store.compensate([row(unknown)])
        assert await store.cancel(*LANE, until) == 6
        assert await store.due(NOON) == {LANE: 4}
        states = {one.id: (await traced(store, one.id)).deliveries["billing"].status for one in old}
        assert set(states.values()) == {Status.CANCELED}
        assert [
            trace.deliveries["billing"].status if (trace := await store.trace(one.id)) else None for one in new
        ] == [
            *(Status.PENDING, Status.RETRYING, Status.RESEND, None, Status.RETRYING, Status.PENDING),
        ]
        assert await store.cancel(*LANE, until) == 0
        assert await store.cancel(*LANE, LATER) == 6
        assert await store.due(NOON) == {}

    async def test_cancel_finds_old_messages_behind_many_later_ones(self, store: Store) -> None:
        sent = [message(n) for n in range(600)]
        await store.write(sent)
        # The later a message is, the sooner is its row due.
        failed = [
            outcome(one, "billing", Status.RETRYING, due_at=LATER - n)
            for n, one in enumerate(sent)
            if n % 2 or n >= 300
        ]
        await store.write(failed)
        assert await store.cancel(*LANE, sent[299].received_at) == 300
        assert await store.due(NOON) == {LANE: 300}
        canceled = Selection(destination=DESTINATION, subscription="billing", status=Status.CANCELED)
        assert await search_all(store, canceled, 500) == [one.id for one in reversed(sent[:300])]

    async def test_cancel_ends_messages_to_publish_but_not_later_ones(self, store: Store) -> None:
        sent = [message(n) for n in range(320)]
        await store.compensate([row(one, "", by=Origin.TRANSPORT, attempts=0) for one in sent])
        await store.compensate([row(message(601), "", message=b"broken")])
        assert await store.cancel(DESTINATION, "", sent[279].received_at) == 0
        left = {row.message_id for row in await lease_all(store)}
        assert left == {one.id for one in sent[280:]}

    async def test_a_message_to_publish_is_a_row_without_subscription(self, store: Store) -> None:
        await store.compensate([row(message(), "", by=Origin.TRANSPORT, attempts=0)])
        assert await store.due(NOON) == {(DESTINATION, ""): 1}
        (leased,) = await lease_all(store)
        await store.finish([leased])
        assert await store.due(NOON) == {}
