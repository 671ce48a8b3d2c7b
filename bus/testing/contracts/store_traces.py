"""The contract of stores for messages and outcomes."""

# ruff: noqa: D102, S101, PLR2004

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

from msgspec.structs import replace

from bus.domain.delivery.delivery import BatchMark, Outcome, Resend, Status
from bus.domain.delivery.receipt import Receipt
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.domain.tracing.trace import Trace, attempts_in_order
from bus.ports.store import DeliveryKey, Store
from bus.testing.writes import DESTINATION, NOON, attempt, message, outcome

LANE = (DESTINATION, "billing")


async def search_all(store: Store, selection: Selection, limit: int = 50) -> list[str]:
    """Return the ids of every page."""
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await store.search(selection, cursor=cursor, limit=limit)
        assert len(page.traces) <= limit
        ids += [trace.id for trace in page.traces]
        cursor = page.next
        if cursor is None:
            return ids


async def traced(store: Store, message_id: str) -> Trace:
    """Return a trace that must be there."""
    trace = await store.trace(message_id)
    assert trace is not None
    return trace


def life(sent: Message) -> list[Message | Outcome]:
    """Return a message's writes: one delivery after two failures, the other at once; stored by two receivers."""
    return [
        sent,
        message(int(sent.biz_id[6:]), received_at=sent.received_at + 1, expected=("billing",)),
        outcome(sent, "billing", Status.RETRYING, 1),
        outcome(sent, "billing", Status.RETRYING, 2),
        outcome(sent, "billing", Status.DELIVERED, 3),
        outcome(sent, "mail", Status.DELIVERED, 1),
    ]


def with_answer(failure: Outcome, response: bytes) -> Outcome:
    """Return a failed POST's outcome with what the subscriber answered."""
    assert failure.attempt is not None
    return replace(failure, attempt=replace(failure.attempt, response=response))


class WriteContract:
    """The behaviour of ``TraceStore.write`` and of reading one message."""

    async def test_a_message_is_read_back_byte_for_byte(self, store: Store) -> None:
        for number, body in enumerate((b"", b"\x00\xff", bytes(70_000))):
            sent = message(number, body=body, headers={"a": "b"})
            await store.write([sent])
            assert await store.message(sent.id) == sent
            trace = await traced(store, sent.id)
            assert trace.body_bytes == len(body)
            assert trace.message is not None
            assert trace.message.body == b""
            assert trace.status is Status.PENDING

    async def test_what_is_unknown_is_none(self, store: Store) -> None:
        await store.write([message(1)])
        for message_id in (message(2).id, message(2 * DAY).id, "not-an-id", ""):
            assert await store.trace(message_id) is None
            assert await store.message(message_id) is None

    async def test_an_outcome_may_come_first(self, store: Store) -> None:
        sent = message()
        await store.write([outcome(sent, "billing", Status.DELIVERED)])
        assert (await traced(store, sent.id)).message is None
        assert await store.message(sent.id) is None
        assert await search_all(store, Selection()) == []
        await store.write([sent])
        trace = await traced(store, sent.id)
        assert trace.deliveries["billing"].status is Status.DELIVERED
        assert trace.deliveries["mail"].status is Status.PENDING
        assert await store.message(sent.id) == sent
        assert await search_all(store, Selection()) == [sent.id]

    async def test_every_order_gives_the_same_document_and_the_same_rows(self, store: Store) -> None:
        expected: Trace | None = None
        for number, order in enumerate(itertools.permutations(range(6))):
            if number % 19:
                continue
            writes = life(message(number))
            for place in order:
                await store.write([writes[place]])
            trace = _renamed(await traced(store, message(number).id), number)
            expected = expected or trace
            assert trace == expected
        assert await store.due(NOON) == {}
        assert expected is not None
        assert expected.status is Status.DELIVERED
        assert len(expected.deliveries["billing"].attempts) == 3

    async def test_a_resend_names_its_origin_whatever_comes_when(self, store: Store) -> None:
        first, second = Resend(1, "job-1", "ann", "fixed", NOON + 5), Resend(2, "job-2", "bob", "", NOON + 9)
        for number, order in enumerate(itertools.permutations(range(4))):
            sent = message(number)
            again = outcome(sent, "billing", Status.RESEND, generation=1, attempt=None, resend=first, due_at=NOON)
            mark = BatchMark("batch-1", 7)
            found = Receipt("10.0.0.1:4150", "1125899906842634", NOON, 2, 3, str(2**64 - 1), 2**40, 60)
            made = replace(
                attempt(f"{sent.id}.again", 1, NOON + 7), generation=1, taken_at=NOON, batch=mark, receipt=found
            )
            writes = (
                sent,
                again,
                outcome(sent, "billing", Status.DEAD, generation=1, attempt=made),
                replace(again, generation=2, resend=second),
            )
            for place in order:
                await store.write([writes[place]])
            delivery = (await traced(store, sent.id)).deliveries["billing"]
            assert (delivery.status, delivery.generation) == (Status.RESEND, 2)
            assert delivery.resends == (first, second)
            (kept,) = delivery.attempts.values()
            assert kept == made

    async def test_a_message_names_the_one_that_it_was_edited_from(self, store: Store) -> None:
        old, new = message(1), message(2, edited_from=message(1).id)
        await store.write([old, new])
        assert await store.message(new.id) == new
        assert (await traced(store, new.id)).message == replace(new, body=b"")

    async def test_repeating_writes_changes_nothing(self, store: Store) -> None:
        writes = life(message())
        await store.write(writes)
        before = await store.trace(message().id)
        for write in (*writes, *reversed(writes)):
            await store.write([write])
        await store.write([*writes, *writes])
        assert await store.trace(message().id) == before
        assert await store.message(message().id) == message()
        assert await store.due(NOON) == {}

    async def test_one_call_and_many_callers_give_the_same(self, store: Store) -> None:
        sent = [message(number) for number in range(40)]
        writes = [write for one in sent for write in life(one)]
        await asyncio.gather(*(store.write([write]) for write in writes))
        traces = [_renamed(await traced(store, one.id), number) for number, one in enumerate(sent)]
        assert all(trace == traces[0] for trace in traces)
        assert await store.due(NOON) == {}

    async def test_the_first_message_received_wins(self, store: Store) -> None:
        late = message(5, received_at=NOON + 900, body=b"late")
        early = message(5, received_at=NOON + 100, body=b"early one")
        for sent in (late, early, late):
            await store.write([sent])
        assert await store.message(early.id) == early

    async def test_a_later_outcome_never_undoes_a_newer_state(self, store: Store) -> None:
        sent = message()
        await store.write([sent, outcome(sent, "billing", Status.DELIVERED, 2)])
        await store.write([outcome(sent, "billing", Status.RETRYING, 1)])
        delivery = (await traced(store, sent.id)).deliveries["billing"]
        assert delivery.status is Status.DELIVERED
        assert sorted(attempt.n for attempt in delivery.attempts.values()) == [1, 2]
        await store.write([outcome(sent, "billing", Status.RESEND, 2, generation=1, attempt=None)])
        await store.write([outcome(sent, "billing", Status.DELIVERED, 9, generation=0)])
        assert (await traced(store, sent.id)).deliveries["billing"].status is Status.RESEND

    async def test_a_delivery_that_fails_for_days_is_still_written(self, store: Store) -> None:
        sent = message()
        await store.write([sent])
        for first in range(1, 1_501, 500):
            failures = [outcome(sent, "billing", Status.RETRYING, n) for n in range(first, first + 500)]
            await store.write([with_answer(one, bytes(12_288)) for one in failures])
        delivery = (await traced(store, sent.id)).deliveries["billing"]
        assert delivery.attempts_made == 1_500
        numbers = [attempt.n for attempt in attempts_in_order(delivery)]
        assert numbers == [*range(1, 101), *range(601, 1_501)]
        assert sum(len(attempt.response) for attempt in delivery.attempts.values()) == 100 * 12_288

    async def test_finished_knows_final_states_and_generations(self, store: Store) -> None:
        sent = message()
        await store.write([sent, outcome(sent, "billing", Status.DEAD, generation=1)])
        key = DeliveryKey(sent.id, sent.retention_days, "billing", 1)
        keys = [key, key._replace(generation=0), key._replace(generation=2), key._replace(subscription="mail")]
        keys.append(key._replace(message_id=message(DAY).id))
        assert await store.finished(keys) == {keys[0], keys[1]}

    async def test_cancelling_a_caller_does_not_break_the_others(self, store: Store) -> None:
        tasks = [asyncio.create_task(store.write([message(number)])) for number in range(30)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for number in range(30):
            if number % 3:
                assert await store.message(message(number).id) == message(number)


class SearchContract:
    """The behaviour of ``search``, ``unsettled`` and ``expire``."""

    async def test_each_condition_selects(self, store: Store) -> None:
        sent = [
            message(0),
            message(1, destination="other", source="shop 2"),
            message(2, biz_id=""),
            message(DAY, source=""),
            message(DAY + 1, retention_days=7, biz_id="order-0"),
        ]
        await store.write([*sent, outcome(sent[0], "billing", Status.DEAD), outcome(sent[0], "mail", Status.DELIVERED)])
        await store.write([outcome(sent[1], name, Status.DELIVERED) for name in ("billing", "mail")])
        cases: list[tuple[Selection, Sequence[int]]] = [
            (Selection(), (4, 3, 2, 1, 0)),
            (Selection(destination=DESTINATION), (4, 3, 2, 0)),
            (Selection(destination="none"), ()),
            (Selection(biz_id="order-0"), (4, 0)),
            (Selection(biz_id=""), (2,)),
            (Selection(source=""), (3,)),
            (Selection(source="shop"), (4, 2, 0)),
            (Selection(status=Status.DEAD), (0,)),
            (Selection(status=Status.DELIVERED), (1,)),
            (Selection(status=Status.PENDING, destination=DESTINATION), (4, 3, 2)),
            (Selection(status=Status.DEAD, destination="other"), ()),
            (Selection(destination=DESTINATION, subscription="billing", status=Status.DEAD), (0,)),
            (Selection(destination=DESTINATION, subscription="billing", status=Status.PENDING), (4, 3, 2)),
            (Selection(destination=DESTINATION, subscription="mail", status=Status.DELIVERED), (0,)),
            (Selection(subscription="mail", status=Status.DELIVERED), (1, 0)),
            (Selection(subscription="nobody"), ()),
            (Selection(subscription="mail", destination=DESTINATION, status=Status.PENDING, source="shop"), (4, 2)),
            (Selection(since=NOON + 1, before=NOON + DAY), (2, 1)),
            (Selection(since=NOON + DAY), (4, 3)),
            (Selection(before=NOON), ()),
            (Selection(text="order-"), (4, 3, 1, 0)),
            (Selection(text="op 2"), (1,)),
            (Selection(text=sent[3].id[:13]), (3,)),
            *((Selection(text=text), ()) for text in ("\0", "order-.", "[(", "%", "_", "$gt")),
        ]
        for selection, places in cases:
            assert await search_all(store, selection) == [sent[place].id for place in places], selection
            assert await search_all(store, selection, limit=1) == [sent[place].id for place in places], selection

    async def test_pages_hold_each_message_once_while_others_are_inserted(self, store: Store) -> None:
        old = [message(number, retention_days=30 if number % 3 else 7) for number in range(0, 100, 2)]
        await store.write(old)
        seen: list[str] = []
        cursor: str | None = None
        for number in itertools.count(1, 2):
            page = await store.search(Selection(destination=DESTINATION), cursor=cursor, limit=7)
            seen += [trace.id for trace in page.traces]
            cursor = page.next
            if cursor is None:
                break
            await store.write([message(number), message(200 + number)])
        assert seen == sorted(set(seen), reverse=True)
        assert {one.id for one in old} <= set(seen)

    async def test_a_status_follows_its_message(self, store: Store) -> None:
        sent = message()
        await store.write([sent])
        states = (Status.RETRYING, Status.DEAD)
        for attempts, status in enumerate(states, 1):
            await store.write([outcome(sent, "billing", status, attempts)])
            for wanted in (Status.PENDING, *states):
                selection = Selection(status=wanted)
                delivery = Selection(destination=DESTINATION, subscription="billing", status=wanted)
                assert await search_all(store, selection) == [sent.id] * (wanted is status)
                assert await search_all(store, delivery) == [sent.id] * (wanted is status)

    async def test_unsettled_gives_whole_pending_messages(self, store: Store) -> None:
        sent = [message(number) for number in range(10)]
        await store.write(sent)
        await store.write([outcome(one, "billing", Status.DELIVERED) for one in sent[:3]])
        await store.write([outcome(sent[3], "billing", Status.RETRYING), outcome(message(99), "billing", Status.DEAD)])
        before = sent[8].received_at
        assert await store.unsettled(*LANE, before, 100) == sent[4:8]
        assert len(await store.unsettled(*LANE, before, 2)) == 2
        assert await store.unsettled(DESTINATION, "nobody", before, 100) == []
        assert await store.unsettled("other", "billing", before, 100) == []

    async def test_messages_for_later_do_not_hide_what_is_unsettled(self, store: Store) -> None:
        later = NOON + 3_600_000
        await store.write([message(number, deliver_at=later + 10) for number in range(300)])
        sent = message(700, deliver_at=later)
        await store.write([sent])
        assert await store.unsettled(*LANE, later, 100) == []
        assert await store.unsettled(*LANE, later + 1, 100) == [sent]

    async def test_expire_drops_whole_partitions_without_unfinished_work(self, store: Store) -> None:
        done = message(0, retention_days=1, expected=("billing",))
        undone = message(0, retention_days=2, id=message(1).id)
        young = message(0, retention_days=9, id=message(2).id, expected=())
        await store.write([done, undone, young, outcome(done, "billing", Status.DELIVERED)])
        assert await store.expire(NOON + DAY) == ([], [])
        dropped, kept = await store.expire(NOON + 4 * DAY)
        assert (len(dropped), len(kept)) == (1, 1)
        assert await store.trace(done.id) is None
        assert await store.message(undone.id) == undone
        assert await store.message(young.id) == young
        assert await search_all(store, Selection()) == [young.id, undone.id]
        await store.write([outcome(undone, "billing", Status.DEAD), outcome(undone, "mail", Status.DELIVERED)])
        assert await store.expire(NOON + 4 * DAY) == (kept, [])
        await store.write([done])
        assert await store.message(done.id) == done

    async def test_a_late_end_of_a_delivery_does_not_prolong_its_partition(self, store: Store) -> None:
        sent = message(0, retention_days=1, expected=("billing",))
        await store.write([outcome(sent, "billing", Status.CANCELED, at=NOON + 3 * DAY)])
        await store.write([sent])
        dropped, kept = await store.expire(NOON + 2 * DAY)
        assert (len(dropped), kept) == (1, [])


def _renamed(trace: Trace, number: int) -> Trace:
    """Return a trace as if its message had the number 0, so that those of several messages compare."""
    for delivery in trace.deliveries.values():
        delivery.at -= number
        delivery.due_at -= number if delivery.due_at else 0
        delivery.attempts = {name.partition(".")[2]: None for name in delivery.attempts}  # type: ignore[misc]
    return Trace("", trace.destination, trace.retention_days, None, len(b"body"), trace.deliveries)
