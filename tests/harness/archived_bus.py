"""A bus with old messages, and the lake that they are archived to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from pyspark.sql import SparkSession

from pipeline.commands.archiving import ArchiveOptions
from pipeline.jobs.archive import LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import MESSAGES
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.old_messages import Sent, send
from tests.harness.subscribers import SubscriberProcess


class Place:
    """A bus with old messages that were delivered, and a lake, which its jobs may know by another name."""

    def __init__(
        self, bus: BusProcess, subscriber: SubscriberProcess, store: str, lake: Path, *, name: str | None = None
    ) -> None:
        self.bus = bus
        self.subscriber = subscriber
        self.store = store
        self.lake = Lake(Storage(str(lake)))
        self.name = name or str(lake)
        self.options = ArchiveOptions(store, str(lake), 14, bus.url, "")

    def deliver(self, messages: list[Sent], within: float = 60) -> None:
        for code in sorted({each.destination for each in messages}):
            self.bus.admin.destination(code)
            self.bus.admin.subscription(code, "s", self.subscriber.url("/s"))
        send(self.bus, messages)
        for code in sorted({each.destination for each in messages}):
            ids = [each.id for each in messages if each.destination == code]
            assert set(self.bus.admin.wait_drained(code, ids, within=within)) == {"delivered"}

    def has(self, message_id: str) -> bool:
        answer = httpx.get(f"{self.bus.url}/api/v1/messages/{message_id}", **PLAIN)
        assert answer.status_code in (200, 404)
        return answer.status_code == 200

    def archived(self, spark: SparkSession) -> dict[str, Any]:
        rows = self.lake.read(spark, MESSAGES, line=LINE).collect()
        assert len({row.id for row in rows}) == len(rows)
        return {row.id: row for row in rows}
