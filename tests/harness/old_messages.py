"""Messages that were made days ago, sent to a bus now: what the pipeline finds to archive."""

from __future__ import annotations

import base64
import json
import os
import random
from collections.abc import Sequence

import httpx
import msgspec

from bus.domain.identity import new_id
from bus.domain.times import DAY
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.servers import need, payloads

_AT_ONCE = 500


class Sent(msgspec.Struct):
    """What was sent."""

    id: str
    destination: str
    body: bytes
    biz_id: str
    key: str


def bodies(count: int, seed: int = 1) -> list[bytes]:
    """Return real webhooks and random bytes in turns, and an empty one."""
    chance = random.Random(seed)
    real = [payload.body for payload in payloads.read(need("payloads"))]
    return [b"", *(chance.choice(real) if n % 2 else os.urandom(chance.randrange(1, 3000)) for n in range(1, count))]


def made(count: int, days: int, now: int, destinations: Sequence[str] = ("orders",)) -> list[Sent]:
    """Return messages whose ids were made in two hours of one day, so many days before ``now`` (ms)."""
    noon = now // DAY * DAY - days * DAY + DAY // 2
    return [
        Sent(new_id(noon + n * 60_000 * 80 // count), destinations[n % len(destinations)], body, f"A-{n}", f"k{n % 5}")
        for n, body in enumerate(bodies(count))
    ]


def send(bus: BusProcess, messages: Sequence[Sent]) -> None:
    """Send them in batches; each must be accepted."""
    for start in range(0, len(messages), _AT_ONCE):
        _send(bus, messages[start : start + _AT_ONCE])


def _send(bus: BusProcess, messages: Sequence[Sent]) -> None:
    lines = [
        json.dumps(
            {
                "id": each.id,
                "destination": each.destination,
                "biz_id": each.biz_id,
                "key": each.key,
                "content_type": "application/x-test",
                "headers": {"X-Place": each.biz_id},
                "body_base64": base64.b64encode(each.body).decode(),
            }
        )
        for each in messages
    ]
    answer = httpx.post(
        f"{bus.url}/v1/messages",
        content="\n".join(lines),
        headers={"content-type": "application/x-ndjson"},
        timeout=60,
        **PLAIN,
    )
    assert {each["status"] for each in answer.raise_for_status().json()["results"]} == {"accepted"}
