"""Control of the double, as JSON over HTTP on a port of its own; an object is named by its number."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from tests.doubles.youzan.cluster import Cluster
from tests.doubles.youzan.httpd import Answer, Request, json_answer
from tests.doubles.youzan.lookupd import FAULTS
from tests.doubles.youzan.refusals import NOT_EXIST, NOT_LEADER
from tests.doubles.youzan.topics import Partition

Order = Callable[[dict[str, Any]], Awaitable[object]]
_LOSSES: Final = (NOT_EXIST, NOT_LEADER)


class Control:
    """Carries out orders; one that makes no sense is answered with 400 and the reason."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._orders: dict[str, Order] = {
            "/leader": self._move,
            "/leader/behind": self._move_behind,
            "/writable": self._writable,
            "/unanswered": self._unanswered,
            "/failing": self._failing,
            "/lose": self._lose,
            "/find": self._find,
            "/nsqd/kill": self._kill,
            "/nsqd/restart": self._restart,
            "/nsqd/hang": self._hang,
            "/nsqd/wake": self._wake,
            "/lookupd": self._lookupd,
            "/forget": self._forget,
            "/journal": self._journal,
            "/state": self._state,
        }

    async def answer(self, request: Request) -> Answer:
        """Carry out one order."""
        order = self._orders.get(request.path)
        if order is None:
            return json_answer({"error": f"no such order: {request.path}"}, 404)
        try:
            return json_answer(await order(request.json()))
        except (KeyError, ValueError, OSError) as error:
            return json_answer({"error": f"{type(error).__name__}: {error}"}, 400)

    def _partition(self, order: dict[str, Any]) -> Partition:
        found = self._cluster.topics.partition(order["topic"], order["partition"])
        if found is None:
            raise ValueError(f"no partition {order['partition']} of {order['topic']}")
        return found

    async def _move(self, order: dict[str, Any]) -> None:
        self._cluster.move(self._partition(order), self._alive(order))

    async def _move_behind(self, order: dict[str, Any]) -> None:
        self._cluster.move_behind(self._partition(order), self._alive(order), order["lost"])

    def _alive(self, order: dict[str, Any]) -> int:
        node: int = order["nsqd"]
        if not self._cluster.alive(node):
            raise ValueError(f"nsqd {node} is not running")
        return node

    async def _unanswered(self, order: dict[str, Any]) -> None:
        self._partition(order).unanswered = order["count"]

    async def _writable(self, order: dict[str, Any]) -> None:
        self._partition(order).writable = order["writable"]

    async def _failing(self, order: dict[str, Any]) -> None:
        self._partition(order).failing = order["failing"]

    async def _lose(self, order: dict[str, Any]) -> None:
        error = order.get("error", NOT_EXIST)
        if error not in _LOSSES:
            raise ValueError(f"{error} is none of {_LOSSES}")
        self._cluster.lose(self._partition(order), error)

    async def _find(self, order: dict[str, Any]) -> None:
        self._partition(order).lost = None

    async def _kill(self, order: dict[str, Any]) -> None:
        await self._cluster.kill(order["nsqd"])

    async def _restart(self, order: dict[str, Any]) -> None:
        await self._cluster.restart(order["nsqd"])

    async def _hang(self, order: dict[str, Any]) -> None:
        self._cluster.nsqds[order["nsqd"]].hang()

    async def _wake(self, order: dict[str, Any]) -> None:
        self._cluster.nsqds[order["nsqd"]].wake()

    async def _lookupd(self, order: dict[str, Any]) -> None:
        lookupd = self._cluster.lookupds[order["lookupd"]]
        if order.get("fault") not in {None, *FAULTS}:
            raise ValueError(f"{order['fault']} is none of {FAULTS}")
        lookupd.delay = order.get("delay", lookupd.delay)
        lookupd.fault = order.get("fault", lookupd.fault)
        if order.get("leads"):
            self._cluster.lookup_leader = lookupd.number
        if (running := order.get("running", lookupd.server.running)) != lookupd.server.running:
            await (lookupd.server.start() if running else lookupd.server.stop())

    async def _forget(self, _: dict[str, Any]) -> None:
        for nsqd in self._cluster.nsqds.values():
            nsqd.journal.clear()
        for lookupd in self._cluster.lookupds.values():
            lookupd.journal.clear()

    async def _journal(self, order: dict[str, Any]) -> list[dict[str, Any]]:
        if "nsqd" in order:
            return self._cluster.nsqds[order["nsqd"]].journal
        return self._cluster.lookupds[order["lookupd"]].journal

    async def _state(self, _: dict[str, Any]) -> dict[str, Any]:
        return {
            "counters": {one.number: one.counters for one in self._cluster.nsqds.values()},
            "partitions": [
                {"topic": one.topic, "partition": one.number, "nsqds": one.nodes, "writable": one.writable}
                | {"electing": one.electing, "lost": one.lost, "messages": len(one.log.entries)}
                for one in self._cluster.topics.partitions()
            ],
        }
