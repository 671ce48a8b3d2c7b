"""A process that receives everything, finishes all but every nth message, says so, and waits to be killed."""

from __future__ import annotations

import asyncio
import json
import sys

from bus.testing.contracts.transport import Destination
from bus.transports.kafka import KafkaConfig
from tests.integration.kafka.kafka_world import CODE, receive, subscription
from tests.servers.kafka_fixtures import changed, opened, quick


async def main(settings: dict[str, str], every: int) -> None:
    config: KafkaConfig = changed(quick(settings["bootstrap"]), prefix=settings["prefix"])
    async with opened(config) as transport:
        await transport.ensure(Destination(code=CODE), [subscription()])
        consumer = await transport.consume(CODE, "billing")
        found = await receive(consumer, count=300)
        unfinished = found[::every]
        consumer.ack([item for item in found if item not in unfinished])
        while True:
            lag = (transport.lags() or {}).get((CODE, "billing"))
            if lag is not None and lag.records == len(unfinished):
                break
            await asyncio.sleep(0.02)
        print(json.dumps({"unfinished": [item.message.id for item in unfinished]}), flush=True)
        await asyncio.Event().wait()  # until it is killed


asyncio.run(main(json.loads(sys.argv[1]), int(sys.argv[2])))
