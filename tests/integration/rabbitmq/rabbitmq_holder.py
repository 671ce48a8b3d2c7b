"""A process that takes messages and holds them: ``python -m tests.integration.rabbitmq.rabbitmq_holder URL CODE N``."""

from __future__ import annotations

import asyncio
import json
import sys

from bus.clock import SystemClock
from bus.testing.quarantine import MemoryQuarantine
from bus.transports.rabbitmq import RabbitmqConfig, RabbitmqTransport, parse_cluster
from tests.integration.rabbitmq.rabbitmq_world import receive


async def main(url: str, code: str, count: int) -> None:
    config = RabbitmqConfig(parse_cluster(url, "test"))
    transport = RabbitmqTransport(config, MemoryQuarantine(), SystemClock(), lambda: 0.5)
    running = asyncio.create_task(transport.run())
    held = await receive(await transport.consume(code, "billing"), count)
    print(json.dumps({"held": [item.message.id for item in held]}), flush=True)
    await running


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
