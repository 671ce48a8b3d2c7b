"""One nsqd of the cluster: its connections, what they asked, and what it counted."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tests.doubles.youzan.frames import Command
from tests.doubles.youzan.identity import Limits
from tests.doubles.youzan.log import Entry
from tests.doubles.youzan.session import Session
from tests.doubles.youzan.topics import Partition, Topics

HOST: Final = "127.0.0.1"
_WITH_ID: Final = frozenset({"FIN", "REQ", "TOUCH"})


class Nsqd:
    """Serves clients on a TCP port that stays the same when it is killed and started again.

    Attributes
    ----------
    journal
        The commands that it got, oldest first.
    counters
        What it did, and the codes of what it refused.
    awake
        Set unless it hangs: then it takes connections and bytes, and neither answers nor sends anything.
    """

    def __init__(self, number: int, topics: Topics, limits: Limits, tcp: int, http: int) -> None:
        self.number = number
        self.topics = topics
        self.limits = limits
        self.tcp = tcp
        self.http = http
        self.started = int(time.time())
        self.sessions: dict[int, Session] = {}
        self.journal: list[dict[str, Any]] = []
        self.counters: Counter[str] = Counter()
        self.keep: Callable[[Partition, int], None] = lambda _partition, _count: None
        self.changed: Callable[[], None] = lambda: None
        self.now = time.monotonic
        self.awake = asyncio.Event()
        self.awake.set()
        self._numbers = itertools.count(1)
        self._server: asyncio.Server | None = None

    @property
    def running(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    @property
    def peer(self) -> dict[str, Any]:
        """How nsqlookupds tell of it."""
        return {
            "id": f"{HOST}:{40_000 + self.number}",
            "remote_address": f"{HOST}:{40_000 + self.number}",
            "hostname": "double",
            "broadcast_address": HOST,
            "tcp_port": self.tcp,
            "http_port": self.http,
            "version": "0.3.7-HA.1.13.0",
            "distributed_id": f"{HOST}:{self.tcp + 100}:{self.tcp}:{338_000 + self.number}",
        }

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._serve, HOST, self.tcp)

    def hang(self) -> None:
        """Be silent, as a process does that is stopped or waits for its disk."""
        self.awake.clear()

    def wake(self) -> None:
        """Answer and send again, what came meanwhile too."""
        self.awake.set()
        for partition in self.topics.partitions():
            partition.hand_out(self.now())

    async def kill(self) -> None:
        """Stop listening and cut all connections."""
        self.awake.set()
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut(lambda _: True)

    def cut(self, which: Callable[[Session], bool]) -> None:
        """Cut some of the connections."""
        for session in list(self.sessions.values()):
            if which(session):
                session.abort()

    def part_with(self, partition: Partition) -> None:
        """Send the consumers of a partition away."""
        self.cut(lambda session: session.partition is partition)

    def note(self, session: Session, command: Command) -> None:
        """Write a command to the journal; ids are hexadecimal there."""
        params = [
            part.hex() if index == 0 and command.name in _WITH_ID else part.decode(errors="replace")
            for index, part in enumerate(command.params)
        ]
        self.journal.append({"connection": session.number, "command": command.name, "params": params})
        self.counters[command.name] += 1

    def introduce(self, body: bytes) -> None:
        """Add to the journal what a client told with the IDENTIFY just noted."""
        self.journal[-1]["identify"] = json.loads(body)

    def published(self, partition: Partition, entries: list[Entry]) -> None:
        """Count messages, keep them and hand them out."""
        self.counters["published"] += len(entries)
        self.keep(partition, len(entries))
        partition.hand_out(self.now())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(self, next(self._numbers), reader, writer)
        self.sessions[session.number] = session
        self.counters["connections"] += 1
        try:
            await session.run()
        finally:
            del self.sessions[session.number]
