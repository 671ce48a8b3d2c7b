"""A process that reads a group: it receives some messages, acks the first of them, says so, and goes on as it is told.

With ``pause`` it waits until it was stopped for longer than its session and let go on, and then says what it gets.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bus.testing.contracts.transport import receive
from tests.integration.kafka.kafka_group_world import DESTINATION, NAME, ensure
from tests.servers.kafka_cluster_fixtures import opened_group
from tests.servers.kafka_fixtures import changed, quick

_STOOD_STILL = 3.0
_LISTENS = 2.0


async def main(bootstrap: list[str], prefix: str, *, pauses: bool) -> None:
    config = changed(quick(bootstrap[0]), bootstrap=tuple(bootstrap), prefix=prefix, session_timeout=6.0)
    async with opened_group(config) as group:
        await ensure(group, NAME)
        reader = await group.reader(DESTINATION, NAME)
        found = await receive(reader, 1, count=3)
        reader.ack(found[:1])
        while (lag := (group.lags() or {}).get((DESTINATION, NAME))) is None or lag.records != 9:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        _say(received=[item.message.biz_id for item in found])
        if not pauses:
            await asyncio.Event().wait()  # until it is killed
        await _stood_still()
        try:
            late = await asyncio.wait_for(reader.receive(10), _LISTENS)
        except TimeoutError:
            late = []
        _say(received=[item.message.biz_id for item in late])


async def _stood_still() -> None:
    before = time.monotonic()
    while (now := time.monotonic()) - before < _STOOD_STILL:
        before = now
        await asyncio.sleep(0.02)


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)


settings = json.loads(sys.argv[1])
asyncio.run(main(settings["bootstrap"], settings["prefix"], pauses=settings["pauses"]))
