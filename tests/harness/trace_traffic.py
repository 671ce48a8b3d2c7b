"""Files of trace events with all that can be wrong with them, and what counting them by hand gives."""

from __future__ import annotations

import math
import os
import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.trace_lines import block, settled

START = 1_763_700_000_000
_HOUR = 3_600_000
_SPAN = 300_000
Key = tuple[int, str, str]


@dataclass
class Traffic:
    """What was written, counted without the code under test.

    ``counts`` has for each (minute, destination, subscription) how many events, deliveries, failures, retries, bytes.
    """

    folder: Path
    counts: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0] * 5))
    biz_ids: dict[Key, set[str]] = field(default_factory=lambda: defaultdict(set))
    times: dict[Key, list[int]] = field(default_factory=lambda: defaultdict(list))
    side: Counter[str] = field(default_factory=Counter)
    repeated: int = 0

    def count(self, event: dict[str, Any]) -> None:
        """Count a good event."""
        delivered = event["status"] == "delivered"
        key = (event["at"] // 60_000 * 60_000, event["destination"], event["subscription"])
        more = (1, delivered, not delivered, event["attempt"] > 1, event["bytes"])
        self.counts[key] = [old + new for old, new in zip(self.counts[key], more, strict=True)]
        self.biz_ids[key].add(event["biz_id"])
        if delivered:
            self.times[key].append(event["latency_us"])


def write_traffic(folder: Path, events: int, *, files: int, seed: int = 1, per_block: int = 500) -> Traffic:
    """Write files that arrived one after the other, with repeated blocks, rubbish, late and future-dated events."""
    folder.mkdir(parents=True)
    chance = random.Random(seed)
    traffic = Traffic(folder)
    blocks = max(events // per_block, files)
    earlier: list[str] = []
    for number in range(files):
        arrived = START + _SPAN * (number + 1) // files
        lines = []
        for place in range(number, blocks, files):
            line = _block(traffic, chance, emitter=f"e{place % 3}", seq=place // 3 + 1, size=per_block, until=arrived)
            lines.append(line)
            if earlier and chance.random() < 0.1:
                lines.append(chance.choice(earlier))
                traffic.repeated += 1
            earlier.append(line)
        if chance.random() < 0.5:
            lines.append(f"rubbish {number}\n")
            traffic.side["malformed"] += 1
        path = folder / f"{number:04d}.jsonl"
        path.write_text("".join(lines), "utf-8")
        os.utime(path, (arrived / 1000, arrived / 1000))
    return traffic


def _block(traffic: Traffic, chance: random.Random, *, emitter: str, seq: int, size: int, until: int) -> str:
    events = [_event(chance, until) for _ in range(size)]
    for event in events:
        traffic.count(event)
    for verdict, at in (("late", until - _HOUR), ("future", until + _HOUR)):
        if chance.random() < 0.2:
            events.insert(chance.randrange(len(events)), settled(at))
            traffic.side[verdict] += 1
    if chance.random() < 0.2:
        events.append({"stage": "settled", "id": "nothing"})
        traffic.side["malformed"] += 1
    return block(events, emitter=emitter, seq=seq, at=until)


def _event(chance: random.Random, until: int) -> dict[str, Any]:
    return settled(
        until - chance.randrange(60_000),
        destination=chance.choice(["orders", "bills"]),
        subscription=chance.choice(["shop", "mail", "audit"]),
        status="delivered" if chance.random() < 0.9 else "retrying",
        attempt=1 if chance.random() < 0.8 else 2,
        bytes=chance.randrange(2_000),
        biz_id=f"b{chance.randrange(200)}",
        latency_us=int(math.exp(chance.gauss(9, 1.2))) + 1,
    )
