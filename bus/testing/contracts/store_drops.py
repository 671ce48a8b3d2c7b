"""The contract of stores for drops of a partition that somebody else keeps."""

# ruff: noqa: D102, S101

from __future__ import annotations

import pytest

from bus.domain.delivery.delivery import Outcome, Resend, Status
from bus.domain.message import Message
from bus.domain.times import DAY
from bus.domain.tracing.contents import Contents, Tally
from bus.domain.tracing.partition import PartitionLabel
from bus.errors import Conflict, NotFound
from bus.ports.store import Store
from bus.testing.writes import NOON, message, outcome

PARTITION = PartitionLabel(NOON // DAY, 30)


def finished(number: int) -> list[Message | Outcome]:
    """Return the writes of a message whose deliveries have all come to an end."""
    sent = message(number, body=b"\x00\xff" * number)
    return [
        sent,
        outcome(sent, "billing", Status.DELIVERED, 2),
        outcome(sent, "mail", Status.DEAD, reason="HTTP 500"),
    ]


async def contents(store: Store, ids: list[str]) -> Contents:
    """Return what messages of a store add up to."""
    tally = Tally()
    for name in ids:
        trace, whole = await store.trace(name), await store.message(name)
        assert trace is not None
        tally.add(trace, whole.body if whole is not None else b"")
    return tally.contents


class DropContract:
    """The behaviour of ``TraceStore.drop``."""

    async def test_a_partition_goes_whole_when_its_contents_are_known(self, store: Store) -> None:
        numbers = range(30)
        await store.write([write for number in numbers for write in finished(number)])
        other_day, other_class = message(DAY), message(900, retention_days=7)
        await store.write([other_day, other_class])
        ids = [message(number).id for number in numbers]
        known = await contents(store, list(reversed(ids)))
        assert (known.messages, known.deliveries) == (30, 60)
        await store.drop(PARTITION, known)
        assert [await store.trace(name) for name in ids] == [None] * 30
        assert await store.message(ids[3]) is None
        assert await store.message(other_day.id) == other_day
        assert await store.message(other_class.id) == other_class
        with pytest.raises(NotFound):
            await store.drop(PARTITION, known)

    async def test_a_partition_is_made_again_for_what_comes_later(self, store: Store) -> None:
        await store.write(finished(1))
        await store.drop(PARTITION, await contents(store, [message(1).id]))
        await store.write(finished(2))
        assert await store.trace(message(1).id) is None
        assert await store.message(message(2).id) == message(2, body=b"\x00\xff" * 2)

    async def test_other_contents_stay(self, store: Store) -> None:
        await store.write(finished(1))
        known = await contents(store, [message(1).id])
        wrong = (
            known._replace(messages=2),
            known._replace(deliveries=3),
            known._replace(checksum="0" * 30),
        )
        for one in wrong:
            with pytest.raises(Conflict):
                await store.drop(PARTITION, one)
        await store.write(finished(2))
        with pytest.raises(Conflict):
            await store.drop(PARTITION, known)
        assert await store.trace(message(1).id) is not None

    async def test_what_was_resent_since_stays(self, store: Store) -> None:
        sent = message(1)
        await store.write(finished(1))
        known = await contents(store, [sent.id])
        resend = Resend(1, "", "ann", "", NOON)
        again = outcome(sent, "mail", Status.RESEND, generation=1, attempt=None, resend=resend, due_at=NOON)
        await store.write([again])
        for expected in (known, await contents(store, [sent.id])):
            with pytest.raises(Conflict):
                await store.drop(PARTITION, expected)
        await store.write([outcome(sent, "mail", Status.DELIVERED, 2, generation=1)])
        with pytest.raises(Conflict):
            await store.drop(PARTITION, known)
        await store.drop(PARTITION, await contents(store, [sent.id]))
        assert await store.trace(sent.id) is None

    async def test_what_is_open_or_has_not_arrived_stays(self, store: Store) -> None:
        pending = message(1)
        await store.write([pending])
        with pytest.raises(Conflict):
            await store.drop(PARTITION, await contents(store, [pending.id]))
        early = message(DAY)
        await store.write([outcome(early, "billing", Status.DELIVERED)])
        with pytest.raises(Conflict):
            await store.drop(PARTITION._replace(day=PARTITION.day + 1), await contents(store, [early.id]))
        assert await store.trace(pending.id) is not None
        assert await store.trace(early.id) is not None
