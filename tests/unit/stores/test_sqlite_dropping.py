"""A partition that another process writes to while it is counted is not dropped."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bus.domain.delivery.delivery import Status
from bus.domain.tracing.contents import Tally
from bus.errors import Conflict
from bus.stores.sqlite import SqliteStore, dropping
from bus.testing.contracts.store_drops import PARTITION, contents, finished
from bus.testing.writes import NOON, message, outcome


async def test_a_write_between_counting_and_dropping_keeps_the_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = await SqliteStore.open(tmp_path), await SqliteStore.open(tmp_path)
    await one.write(finished(1))
    known = await contents(one, [message(1).id])
    late = outcome(message(1), "mail", Status.RESEND, generation=1, attempt=None, due_at=NOON)
    counted, loop = dropping._counted, asyncio.get_running_loop()

    def counted_then_written(*given: Any) -> Tally:
        tally = counted(*given)
        asyncio.run_coroutine_threadsafe(other.write([late]), loop).result(30)
        return tally

    monkeypatch.setattr(dropping, "_counted", counted_then_written)
    with pytest.raises(Conflict, match="written to meanwhile"):
        await one.drop(PARTITION, known)
    trace = await one.trace(message(1).id)
    assert trace is not None
    assert trace.deliveries["mail"].status is Status.RESEND
    await one.close()
    await other.close()
