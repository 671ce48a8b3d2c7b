"""A process that reads from a group, acks some and holds the rest: ``... URL CODE HELD ACKED``."""

from __future__ import annotations

import asyncio
import json
import sys

from bus.clock import SystemClock
from bus.testing.quarantine import MemoryQuarantine
from bus.transports.rabbitmq import parse_cluster
from bus.transports.rabbitmq.strict import RabbitmqGroup
from tests.integration.rabbitmq.rabbitmq_world import receive


async def main(url: str, code: str, held: int, acked: int) -> None:
    group = RabbitmqGroup("a", parse_cluster(url, "test"), MemoryQuarantine(), SystemClock(), lambda: 0.5)
    running = asyncio.create_task(group.run())
    reader = await group.reader(code, "billing")
    found = await receive(reader, held)
    reader.ack(found[:acked])
    print(json.dumps({"held": [item.message.id for item in found]}), flush=True)
    await running


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
