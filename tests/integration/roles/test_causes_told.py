"""The reason why a delivery is not in flight, in its trace, while a real bus is held up."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.harness.process import free_port
from tests.integration.roles.roles_world import Answer, Subscriber, running, until_async

MANY = 60


async def test_a_breaker_permits_and_a_rate_are_told_while_they_hold(tmp_path: Path, subscriber: Subscriber) -> None:
    hold = asyncio.Event()
    subscriber.at("/hangs", Answer(hold=hold))
    async with running(tmp_path) as bus:
        down = f"http://127.0.0.1:{free_port()}/"
        await bus.subscribe("down", down, max_concurrency=1, retry=["10m"])
        await bus.subscribe("hangs", subscriber.url("/hangs"), max_concurrency=2, timeout_seconds=60)
        await bus.subscribe("slow", subscriber.url("/slow"), rate=1)
        ids = [await bus.send() for _ in range(MANY)]
        seen: dict[str, Any] = {}

        async def told() -> bool:
            trace = await bus.trace(ids[-1])
            seen.update({one["subscription"]: one["held"] for one in trace["deliveries"]} if trace else {})
            return {name: (held or {}).get("cause") for name, held in seen.items()} == {
                "down": "breaker",
                "hangs": "permits",
                "slow": "rate",
            }

        await until_async(told, "each is held by what holds it", lambda: seen)
        assert seen["down"]["what"].endswith("nobody answered"), seen
        assert seen["hangs"]["what"].startswith("no permit is free, 2 of 2 are in use"), seen
        assert seen["slow"]["what"].endswith("1 a second"), seen
        hold.set()

        async def is_out() -> bool:
            trace = await bus.trace(ids[-1])
            (hangs,) = [one for one in (trace or {}).get("deliveries", ()) if one["subscription"] == "hangs"]
            return hangs["status"] == "delivered" and hangs["held"] is None

        await until_async(is_out, "what was held is out, and nothing holds it any more")
