"""A message that was attempted more often than a test could wait for."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bus.domain.delivery.delivery import Attempt, Origin, Outcome, Status
from bus.domain.identity import id_time
from bus.domain.message import Message
from bus.stores.sqlite import SqliteStore

TIMES: Final = 1_000
_CODE: Final = "tried.often"


def remember(data: Path, message_id: str) -> None:
    """Write it into the store of a bus that does not run."""
    # In a thread, since the browser's loop runs in this one.
    with ThreadPoolExecutor() as pool:
        pool.submit(asyncio.run, _write(data, message_id)).result()


async def _write(data: Path, message_id: str) -> None:
    store = await SqliteStore.open(data / "store")
    try:
        await store.write([Message(message_id, _CODE, b"{}", received_at=id_time(message_id), expected=("mail",))])
        await store.write([_failure(message_id, n) for n in range(1, TIMES + 1)])
    finally:
        await store.close()


def _failure(message_id: str, n: int) -> Outcome:
    at = id_time(message_id) + 100 * n
    phases = (0.1, 0.4, 2.0, 0.1, 1.5, 0.2)
    attempt = Attempt(f"test-{n}", n, Origin.RETRY, at, 4.3, phases, 503, f"refused {n}", b"no", "node")
    return Outcome(
        message_id=message_id,
        destination=_CODE,
        subscription="mail",
        retention_days=30,
        url="http://127.0.0.1:9/",
        status=Status.DEAD,
        generation=0,
        at=at,
        reason=f"refused {n}",
        attempt=attempt,
        attempts=n,
    )
