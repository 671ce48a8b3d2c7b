"""A cluster in one process: nsqds and nsqlookupds that share the topics, and what may happen to them."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.doubles.youzan.httpd import HttpServer
from tests.doubles.youzan.identity import Limits
from tests.doubles.youzan.lookup_api import LookupApi
from tests.doubles.youzan.lookupd import Lookupd
from tests.doubles.youzan.nsqd import Nsqd
from tests.doubles.youzan.nsqd_api import NsqdApi
from tests.doubles.youzan.storage import Storage
from tests.doubles.youzan.topics import Partition, Topics
from tests.harness.process import free_port

_TICK: Final = 0.01


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds that the cluster takes when a leader is gone, which with real servers were about 25 and 3.

    Attributes
    ----------
    election
        Until another nsqd with a copy leads; it takes no writes.
    rejoin
        From the return of an nsqd until its partitions take writes again.
    """

    election: float = 0.2
    rejoin: float = 0.1


class Cluster:
    """All servers of one cluster.

    Parameters
    ----------
    nsqds, lookupds
        How many; their numbers begin with 1, and the first nsqlookupd leads.
    data
        Folder in which topics, logs and positions outlive the process; None to keep nothing.
    """

    def __init__(
        self,
        nsqds: int,
        lookupds: int,
        *,
        limits: Limits | None = None,
        delays: Delays | None = None,
        data: Path | None = None,
    ) -> None:
        numbers, limits = range(1, nsqds + 1), limits or Limits()
        self.topics = Topics(numbers)
        self.lookup_leader = 1
        self.nsqds = {number: Nsqd(number, self.topics, limits, free_port(), free_port()) for number in numbers}
        api = LookupApi(self)
        self.lookupds = {number: Lookupd(number, free_port(), api.answer) for number in range(1, lookupds + 1)}
        self._delays = delays or Delays()
        self._storage = Storage(data, self.topics) if data else None
        self._apis = {number: HttpServer(NsqdApi(nsqd).handler, nsqd.http) for number, nsqd in self.nsqds.items()}
        self._later: set[asyncio.Task[None]] = set()
        for nsqd in self.nsqds.values():
            nsqd.keep = self._keep
            nsqd.changed = self.changed

    @property
    def addresses(self) -> dict[str, Any]:
        """Where its servers are."""
        return {
            "nsqds": [{"number": one.number, "tcp": one.tcp, "http": one.http} for one in self.nsqds.values()],
            "lookupds": [{"number": one.number, "http": one.server.port} for one in self.lookupds.values()],
        }

    async def start(self) -> None:
        """Start all servers."""
        if self._storage:
            self._storage.load()
        for number in self.nsqds:
            await self._start(number)
        for lookupd in self.lookupds.values():
            await lookupd.server.start()

    async def run(self) -> None:
        """Let time-outs happen, for ever."""
        while True:
            await asyncio.sleep(_TICK)
            for partition in self.topics.partitions():
                partition.expire(time.monotonic())

    def alive(self, node: int) -> bool:
        """Whether an nsqd runs."""
        return self.nsqds[node].running

    def changed(self) -> None:
        """Keep what topics and channels there are."""
        if self._storage:
            self._storage.save()

    def delete(self, topic: str) -> None:
        """Remove a topic and send away who consumes it."""
        for partition in self.topics.delete(topic):
            self._send_away(partition)
        self.changed()

    def move(self, partition: Partition, node: int) -> None:
        """Let another nsqd lead; consumers of the partition have to find it."""
        partition.move(node)
        self._send_away(partition)
        self.changed()

    def move_behind(self, partition: Partition, node: int, count: int) -> None:
        """Let an nsqd lead that lacks the last messages, as after the death of all that had them."""
        partition.move_behind(node, count)
        self._send_away(partition)
        if self._storage:
            self._storage.rewrite(partition)
        self.changed()

    def lose(self, partition: Partition, error: str) -> None:
        """Lose a partition: lookups do not name it, and its nsqds answer with an error."""
        partition.lost = error
        self._send_away(partition)

    async def kill(self, node: int) -> None:
        """Kill an nsqd; where another one has a copy that will lead after a while.

        Writes need more than half of the copies, so of two they need both.
        """
        await self.nsqds[node].kill()
        await self._apis[node].stop()
        for partition in self.topics.partitions():
            if node in partition.nodes:
                self._react(partition)

    async def restart(self, node: int) -> None:
        """Start an nsqd that was killed; its partitions take writes again after a while."""
        await self._start(node)
        for partition in self.topics.partitions():
            if node in partition.nodes:
                self._react(partition)
                self._soon(self._delays.rejoin, partition, self._rejoin)

    async def _start(self, node: int) -> None:
        await self.nsqds[node].start()
        await self._apis[node].start()

    def _copies(self, partition: Partition) -> list[int]:
        return [node for node in partition.nodes if self.alive(node)]

    def _quorum(self, partition: Partition) -> bool:
        return len(self._copies(partition)) > partition.copies // 2

    def _react(self, partition: Partition) -> None:
        """See that somebody leads who is alive, and that no writes go to too few copies."""
        if self._copies(partition) and not self.alive(partition.leader):
            partition.electing = True
            self._soon(self._delays.election, partition, self._elect)
        elif self.alive(partition.leader):
            partition.electing = False
            partition.writable = partition.writable and self._quorum(partition)

    def _elect(self, partition: Partition) -> None:
        alive = self._copies(partition)
        if alive and partition.electing:
            partition.move(alive[0])
            partition.writable = self._quorum(partition)

    def _rejoin(self, partition: Partition) -> None:
        if self._quorum(partition) and not partition.electing:
            partition.writable = True

    def _soon(self, delay: float, partition: Partition, do: Any) -> None:
        async def wait() -> None:
            await asyncio.sleep(delay)
            do(partition)

        task = asyncio.create_task(wait())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _send_away(self, partition: Partition) -> None:
        for nsqd in self.nsqds.values():
            nsqd.part_with(partition)

    def _keep(self, partition: Partition, count: int) -> None:
        if self._storage:
            self._storage.append(partition, count)

    async def stop(self) -> None:
        """Stop all servers, and keep how far channels are."""
        self.changed()
        for number in self.nsqds:
            with suppress(OSError):
                await self.nsqds[number].kill()
                await self._apis[number].stop()
        for lookupd in self.lookupds.values():
            await lookupd.server.stop()
