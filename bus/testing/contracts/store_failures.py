"""The contract of stores for deliveries that fail."""

# ruff: noqa: D102, S101, PLR2004

from __future__ import annotations

from msgspec.structs import replace

from bus.domain.delivery.delivery import Outcome, Status
from bus.domain.message import Message
from bus.domain.searching.selection import Selection
from bus.domain.times import DAY
from bus.domain.tracing.failures import FailureGroup
from bus.ports.store import Store
from bus.testing.contracts.store_traces import search_all
from bus.testing.writes import DESTINATION, NOON, message, outcome


def failed(of: Message, reason: str, status: Status = Status.DEAD, attempts: int = 1, name: str = "billing") -> Outcome:
    """Make what a dispatcher records after a failed POST."""
    return outcome(of, name, status, attempts, reason=reason)


async def groups_of(store: Store, selection: Selection | None = None) -> dict[tuple[str, str], FailureGroup]:
    """Return all groups of a store by subscription and signature."""
    found = await store.failures(selection or Selection())
    assert found.left_out == 0
    assert found.since is None
    return {(group.subscription, group.signature): group for group in found.groups}


async def counts_of(store: Store, selection: Selection | None = None) -> dict[tuple[str, str], dict[Status, int]]:
    """Return how many deliveries each group has."""
    return {key: group.counts for key, group in (await groups_of(store, selection)).items()}


class FailureContract:
    """The behaviour of ``TraceStore.failures``, and of searches with a signature."""

    async def test_failures_of_one_kind_are_one_group(self, store: Store) -> None:
        sent = [message(number) for number in range(5)]
        await store.write(sent)
        assert await groups_of(store) == {}
        for number, one in enumerate(sent):
            await store.write([failed(one, f"10.0.0.{number}: nobody listens on port {9000 + number}")])
        await store.write([failed(sent[2], "HTTP 503", name="mail")])
        assert await groups_of(store) == {
            ("billing", "<address>: nobody listens on port <n>"): FailureGroup(
                DESTINATION,
                "billing",
                "<address>: nobody listens on port <n>",
                {Status.DEAD: 5},
                sent[0].received_at + 10,
                sent[4].received_at + 10,
                sent[4].id,
            ),
            ("mail", "HTTP 503"): FailureGroup(
                DESTINATION,
                "mail",
                "HTTP 503",
                {Status.DEAD: 1},
                sent[2].received_at + 10,
                sent[2].received_at + 10,
                sent[2].id,
            ),
        }
        (largest,) = (await store.failures(Selection(), limit=1)).groups
        assert largest.count == 5
        assert (await store.failures(Selection(), limit=1)).left_out == 1

    async def test_a_group_is_left_when_the_delivery_fails_otherwise_or_no_longer(self, store: Store) -> None:
        one = message()
        key, other = ("billing", "HTTP 500"), ("billing", "timed out in phase connect")
        await store.write([one, failed(one, "HTTP 500", Status.RETRYING, 1)])
        assert await counts_of(store) == {key: {Status.RETRYING: 1}}
        await store.write([failed(one, "timed out in phase connect", Status.RETRYING, 2)])
        assert await counts_of(store) == {other: {Status.RETRYING: 1}}
        await store.write([failed(one, "HTTP 500", Status.RETRYING, 1)])
        assert await counts_of(store) == {other: {Status.RETRYING: 1}}
        await store.write([failed(one, "HTTP 500; retries exhausted after 3", Status.DEAD, 3)])
        assert await counts_of(store) == {key: {Status.DEAD: 1}}
        await store.write([outcome(one, "billing", Status.RESEND, 3, generation=1, reason="resent")])
        assert await groups_of(store) == {}
        again = replace(failed(one, "HTTP 500", Status.RETRYING, 4), generation=1)
        await store.write([again])
        assert await counts_of(store) == {key: {Status.RETRYING: 1}}
        assert (await groups_of(store))[key].last_at == again.at
        await store.write([outcome(one, "billing", Status.DELIVERED, 5, generation=1)])
        assert await groups_of(store) == {}

    async def test_a_retry_that_fails_alike_is_seen_later(self, store: Store) -> None:
        one = message()
        await store.write([one, failed(one, "HTTP 500", Status.RETRYING, 1)])
        await store.write([failed(one, "HTTP 500", Status.RETRYING, 7)])
        (group,) = (await groups_of(store)).values()
        assert (group.counts, group.first_at, group.last_at) == (
            {Status.RETRYING: 1},
            one.received_at + 70,
            one.received_at + 70,
        )

    async def test_a_group_has_deliveries_of_every_state_and_day(self, store: Store) -> None:
        sent = [message(day * DAY, retention_days=7 * (1 + day % 2)) for day in range(4)]
        states = [Status.DEAD, Status.RETRYING, Status.PARKED, Status.DEAD]
        for one, status in zip(sent, states, strict=True):
            await store.write([failed(one, "HTTP 500", status)])
        expected = {Status.DEAD: 2, Status.RETRYING: 1, Status.PARKED: 1}
        (group,) = (await groups_of(store)).values()
        assert group.counts == expected
        assert (group.first_at, group.last_at) == (sent[0].received_at + 10, sent[3].received_at + 10)
        assert group.sample == sent[3].id

    async def test_groups_of_a_destination_a_subscription_and_a_time(self, store: Store) -> None:
        sent = [message(number) for number in range(3)]
        other = message(7, destination="mails")
        await store.write(
            [
                *sent,
                other,
                *(failed(one, "HTTP 500", name=name) for one in [*sent, other] for name in ("billing", "mail")),
            ]
        )
        billing, mail = ("billing", "HTTP 500"), ("mail", "HTTP 500")
        assert await counts_of(store, Selection(destination="mails")) == {
            billing: {Status.DEAD: 1},
            mail: {Status.DEAD: 1},
        }
        assert await counts_of(store, Selection(subscription="mail", destination=DESTINATION)) == {
            mail: {Status.DEAD: 3}
        }
        assert await counts_of(store, Selection(destination=DESTINATION, since=NOON + 1, before=NOON + 2)) == {
            billing: {Status.DEAD: 1},
            mail: {Status.DEAD: 1},
        }
        assert await counts_of(store, Selection(destination="none")) == {}
        assert await counts_of(store, Selection(destination=DESTINATION, subscription="none")) == {}
        assert await counts_of(store, Selection(before=NOON)) == {}

    async def test_a_search_finds_what_a_group_has(self, store: Store) -> None:
        sent = [message(number) for number in range(12)]
        await store.write(sent)
        reasons = ["HTTP 500", "HTTP 503", "timed out after 17 s"]
        writes = [failed(one, reasons[number % 3]) for number, one in enumerate(sent)]
        writes[3] = failed(sent[3], "HTTP 500", Status.RETRYING)
        await store.write([*writes, *(failed(one, "HTTP 500", name="mail") for one in sent[:2])])
        lane = Selection(destination=DESTINATION, subscription="billing")
        for limit in (1, 2, 50):
            assert await search_all(store, replace(lane, signature="HTTP 500"), limit) == [
                sent[number].id for number in (9, 6, 3, 0)
            ]
        assert await search_all(store, replace(lane, signature="HTTP 500", status=Status.DEAD)) == [
            sent[number].id for number in (9, 6, 0)
        ]
        assert await search_all(store, replace(lane, signature="timed out after <n> s", since=NOON + 5)) == [
            sent[number].id for number in (11, 8, 5)
        ]
        assert await search_all(store, replace(lane, signature="HTTP 500", biz_id="order-6")) == [sent[6].id]
        assert await search_all(store, replace(lane, signature="HTTP 500", source="none")) == []
        assert await search_all(store, replace(lane, signature="HTTP 404")) == []
        anybody = Selection(signature="HTTP 500")
        assert await search_all(store, anybody) == [sent[number].id for number in (9, 6, 3, 1, 0)]
        assert await search_all(store, replace(anybody, status=Status.RETRYING)) == [sent[3].id]
        assert await search_all(store, replace(anybody, subscription="mail")) == [sent[1].id, sent[0].id]
        assert await search_all(store, replace(anybody, destination="mails")) == []
