"""``bus run lookup`` as a process, with a configuration that a test writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import httpx

from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.waiting import wait_until

VERSION_1 = {"accept": "application/vnd.nsq; version=1.0"}


def routes(*topics: Mapping[str, Any], default: Mapping[str, Any] | None = None) -> list[Mapping[str, Any]]:
    """Return the topics of a configuration."""
    return [*topics, *([{"#D": default}] if default else [])]


class LookupProxy:
    """A lookup proxy in a room.

    Parameters
    ----------
    clusters
        ``host:port`` of the nsqlookupds of each cluster.
    topics
        As ``routes`` returns them.
    """

    def __init__(
        self,
        folder: Path,
        clusters: Mapping[str, Sequence[str]],
        topics: Sequence[Mapping[str, Any]],
        *,
        room: str = "",
        env: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "rooms.json"
        self.clusters = dict(clusters)
        self.room = room
        self.write(topics)
        self.bus = BusProcess(folder / "data", role="lookup", env={"BUS_LOOKUP_CONFIG": str(self.file), **(env or {})})

    @property
    def address(self) -> str:
        """``host:port``, as clients name it."""
        return self.bus.url.removeprefix("http://")

    def write(self, topics: Sequence[Mapping[str, Any]]) -> None:
        """Write another configuration, which is followed."""
        content = {"room": self.room, "topics": [*topics], "lookupSchema": self.clusters}
        self.file.write_text(json.dumps(content))

    def get(self, path: str, *, within: float = 10.0, **headers: str) -> httpx.Response:
        """Ask it."""
        return httpx.get(f"{self.bus.url}{path}", headers=VERSION_1 | headers, timeout=within, **PLAIN)

    def ports(self, topic: str, access: str = "r") -> set[int]:
        """Return the ports of the nsqds that a client is told of."""
        answer = self.get(f"/lookup?topic={topic}&access={access}")
        return {one["tcp_port"] for one in answer.json().get("producers", [])}

    def wait_ports(self, topic: str, access: str, ports: set[int], *, within: float = 15.0) -> None:
        """Wait until clients are told of these nsqds and no others."""
        wait_until(
            lambda: self.ports(topic, access) == ports,
            within=within,
            what=f"{topic} is at {ports}",
            state=lambda: self.get(f"/lookup?topic={topic}&access={access}").text,
        )

    def __enter__(self) -> Self:
        self.bus.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bus.close()
