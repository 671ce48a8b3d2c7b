"""Topics, logs and positions in a folder, so that they outlive the process.

Messages are appended before they are confirmed. How far channels are is written when there are new ones and at an
orderly end: what was finished after that is delivered again, as with a real nsqd that is killed.
"""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.doubles.youzan.log import Draft, Entry
from tests.doubles.youzan.topics import Meta, Partition, Topics


class Storage:
    """Keeps the topics of a cluster in ``topics.json``, and each log beside it."""

    def __init__(self, folder: Path, topics: Topics) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._topics = topics

    def save(self) -> None:
        """Write which topics and channels there are, and how far these are."""
        kept = [
            {
                "name": topic.name,
                "meta": asdict(topic.meta),
                "registered": topic.registered,
                "partitions": [_described(one) for one in topic.partitions.values()],
            }
            for topic in self._topics
        ]
        path = self._folder / "topics.json"
        path.with_suffix(".new").write_text(json.dumps(kept))
        path.with_suffix(".new").replace(path)

    def append(self, partition: Partition, count: int) -> None:
        """Write the last messages of a partition."""
        with self._log_of(partition).open("a") as file:
            file.writelines(f"{json.dumps(_written(entry))}\n" for entry in partition.log.entries[-count:])

    def rewrite(self, partition: Partition) -> None:
        """Write the messages of a partition that has lost some."""
        with self._log_of(partition).open("w") as file:
            file.writelines(f"{json.dumps(_written(entry))}\n" for entry in partition.log.entries)

    def load(self) -> None:
        """Make what was kept."""
        path = self._folder / "topics.json"
        for kept in json.loads(path.read_text()) if path.exists() else []:
            topic = self._topics.create(kept["name"], Meta(**kept["meta"]))
            topic.registered = kept["registered"]
            for described in kept["partitions"]:
                self._load(topic.partitions[described["number"]], described)

    def _load(self, partition: Partition, described: dict[str, Any]) -> None:
        partition.nodes = described["nodes"]
        path = self._log_of(partition)
        for line in path.read_text().splitlines() if path.exists() else []:
            partition.log.restore(_read(json.loads(line)))
        for name, kept in described["channels"].items():
            channel = partition.channel(name)
            channel.ordered = kept["ordered"]
            channel.seek(kept["confirmed"])

    def _log_of(self, partition: Partition) -> Path:
        return self._folder / f"{partition.topic}.{partition.number}.log"


def _described(partition: Partition) -> dict[str, Any]:
    channels = {one.name: {"ordered": one.ordered, "confirmed": one.confirmed} for one in partition.channels.values()}
    return {"number": partition.number, "nodes": partition.nodes, "channels": channels}


def _written(entry: Entry) -> dict[str, Any]:
    draft = entry.draft
    return {
        "id": entry.id,
        "timestamp": entry.timestamp,
        "offset": entry.offset,
        "size": entry.size,
        "trace": draft.trace,
        "ext": None if draft.ext is None else draft.ext.decode(),
        "body": base64.b64encode(draft.body).decode(),
    }


def _read(line: dict[str, Any]) -> Entry:
    ext = None if line["ext"] is None else line["ext"].encode()
    draft = Draft(base64.b64decode(line["body"]), line["trace"], ext)
    return Entry(line["id"], line["timestamp"], line["offset"], line["size"], draft)
