"""The contract of stores for deliveries that a person discards."""

# ruff: noqa: D102, S101

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from bus.domain.delivery.canceling import canceled
from bus.domain.delivery.delivery import UNDELIVERED, Outcome, Status
from bus.domain.delivery.intervention import DISCARDED, Intervention
from bus.domain.message import Message, encode_message
from bus.domain.searching.selection import Selection
from bus.ports.store import DeliveryKey, Store
from bus.testing.contracts.store_traces import LANE, search_all, traced
from bus.testing.writes import DESTINATION, NOON, message, outcome

LATER: Final = NOON + 60_000
REASON: Final = str(Intervention(DISCARDED, "ann", "void"))
MAIL: Final = (DESTINATION, "mail")
BACKLOG: Final = Selection(destination=DESTINATION, subscription="billing", undelivered=True)


def in_state(of: Message, name: str, status: Status) -> list[Outcome]:
    """Make what brings a delivery into a state; nothing for one that is pending."""
    if status is Status.PENDING:
        return []
    if status is Status.RESEND:
        copy = encode_message(of)
        return [outcome(of, name, status, generation=1, attempt=None, due_at=NOON, message=copy)]
    return [outcome(of, name, status)]


async def discarded(store: Store, selection: Selection) -> list[str]:
    """Cancel what a selection takes, as a job does, and return the ids."""
    ids = await search_all(store, selection)
    traces = [await traced(store, name) for name in ids]
    await store.write([canceled(trace, "billing", LATER, REASON) for trace in traces])
    return ids


class DiscardContract:
    """The behaviour of ``search`` and ``write`` with what is not delivered, and is dropped."""

    async def test_what_is_not_delivered_of_a_subscription_is_found_and_nothing_else(self, store: Store) -> None:
        sent = [message(number) for number, _ in enumerate(Status)]
        await store.write(sent)
        for one, status in zip(sent, Status, strict=True):
            await store.write([*in_state(one, "billing", status), *in_state(one, "mail", Status.DEAD)])
        backlog = [one.id for one, status in zip(sent, Status, strict=True) if status in UNDELIVERED][::-1]
        for limit in (50, 1):
            assert await search_all(store, BACKLOG, limit) == backlog
        for one, status in zip(sent, Status, strict=True):
            found = await search_all(store, replace(BACKLOG, status=status))
            assert found == ([one.id] if status in UNDELIVERED else [])
            found = await search_all(store, replace(BACKLOG, biz_id=one.biz_id))
            assert found == ([one.id] if status in UNDELIVERED else [])
        assert await search_all(store, replace(BACKLOG, since=NOON + 3)) == [i for i in backlog if i >= sent[3].id]
        assert len(await search_all(store, replace(BACKLOG, subscription="mail"))) == len(sent)
        assert await search_all(store, replace(BACKLOG, subscription="nobody")) == []
        assert await search_all(store, Selection(undelivered=True)) == [one.id for one in sent][::-1]

    async def test_what_is_discarded_ends_in_every_state_and_the_rest_stays(self, store: Store) -> None:
        sent = [message(number) for number, _ in enumerate(Status)]
        await store.write(sent)
        for one, status in zip(sent, Status, strict=True):
            await store.write([*in_state(one, "billing", status), *in_state(one, "mail", Status.RETRYING)])
        before = {one.id: await traced(store, one.id) for one in sent}
        ids = await discarded(store, BACKLOG)
        for one, status in zip(sent, Status, strict=True):
            trace = await traced(store, one.id)
            assert trace.deliveries["mail"] == before[one.id].deliveries["mail"]
            if status in UNDELIVERED:
                assert one.id in ids
                ended = trace.deliveries["billing"]
                assert (ended.status, ended.reason, ended.at) == (Status.CANCELED, REASON, LATER)
                assert ended.attempts == before[one.id].deliveries["billing"].attempts
            else:
                assert trace.deliveries["billing"] == before[one.id].deliveries["billing"]
        assert await store.due(LATER) == {MAIL: len(sent)}
        assert await discarded(store, BACKLOG) == []

    async def test_a_discarded_delivery_needs_no_post_unless_it_is_resent(self, store: Store) -> None:
        sent = message()
        await store.write([sent, outcome(sent, "billing", Status.RETRYING)])
        await discarded(store, BACKLOG)
        key = DeliveryKey(sent.id, sent.retention_days, "billing", 0)
        assert await store.finished([key]) == {key}
        copy = encode_message(sent)
        await store.write(
            [outcome(sent, "billing", Status.RESEND, generation=1, attempt=None, due_at=LATER, message=copy)]
        )
        assert await store.finished([key._replace(generation=1)]) == set()
        assert await store.due(LATER) == {LANE: 1}

    async def test_an_attempt_that_was_under_way_is_delivered_or_leaves_it_discarded(self, store: Store) -> None:
        sent = [message(number) for number in range(2)]
        await store.write(sent)
        await discarded(store, BACKLOG)
        await store.write([outcome(sent[0], "billing", Status.DELIVERED), outcome(sent[1], "billing", Status.RETRYING)])
        states = [(await traced(store, one.id)).deliveries["billing"] for one in sent]
        assert [state.status for state in states] == [Status.DELIVERED, Status.CANCELED]
        assert [len(state.attempts) for state in states] == [1, 1]
        assert await store.due(LATER) == {}

    async def test_what_holds_up_a_key_and_what_waits_behind_it_loses_its_row(self, store: Store) -> None:
        sent = [message(number, key="k") for number in range(3)]
        await store.write(sent)
        for place, (one, status) in enumerate(zip(sent, (Status.DEAD, Status.PENDING, Status.PENDING), strict=True), 1):
            copy = encode_message(one)
            await store.write([outcome(one, "billing", status, order_key="k", place=place, message=copy, due_at=0)])
        assert len(await store.ordered_rows(*LANE, "k", limit=10)) == len(sent)
        await discarded(store, replace(BACKLOG, before=NOON + 2))
        assert [row.place for row in await store.ordered_rows(*LANE, "k", limit=10)] == [3]
