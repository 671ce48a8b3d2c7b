"""A partition that another process writes to while it is counted is not dropped."""

from typing import Any

import pytest

from bus.domain.delivery.delivery import Status
from bus.errors import Conflict
from bus.stores.mongodb.dropping import PartitionDrop
from bus.testing.contracts.store_drops import PARTITION, contents, finished
from bus.testing.writes import NOON, message, outcome, row
from tests.servers.mongodb_fixtures import open_store


async def test_a_write_between_counting_and_dropping_keeps_the_partition(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await open_store(database), await open_store(database)
    await one.write(finished(1))
    known = await contents(one, [message(1).id])
    late = outcome(message(1), "mail", Status.DELIVERED, 3, at=NOON)
    has_rows = PartitionDrop._has_rows

    async def written_then(self: PartitionDrop, label: Any) -> bool:
        await other.write([late])
        return await has_rows(self, label)

    monkeypatch.setattr(PartitionDrop, "_has_rows", written_then)
    with pytest.raises(Conflict, match="written to meanwhile"):
        await one.drop(PARTITION, known)
    assert await one.message(message(1).id) is not None
    await one.close()
    await other.close()


async def test_work_that_its_trace_does_not_tell_of_keeps_the_partition(database: str) -> None:
    store = await open_store(database)
    await store.write(finished(1))
    await store.compensate([row(message(1))])
    with pytest.raises(Conflict, match="not finished"):
        await store.drop(PARTITION, await contents(store, [message(1).id]))
    await store.close()
