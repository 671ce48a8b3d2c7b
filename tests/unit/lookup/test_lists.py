"""Lists of all clusters: asked for once a second, whoever wants them, and anew after a change."""

from __future__ import annotations

import json
from typing import Any

import httpx

from bus.testing.clock import ManualClock
from lookup.app import LookupApp
from lookup.nsqlookupd import LookupAnswer, LookupUnavailable


class FakeCluster:
    """One nsqlookupd's list of topics; None does not answer."""

    is_fork = False

    def __init__(self, name: str, *topics: str) -> None:
        self.name = name
        self.topics: list[str] | None = list(topics)
        self.asked = 0

    async def ask(self, _target: str, _via: str = "") -> list[LookupAnswer]:
        self.asked += 1
        if self.topics is None:
            raise LookupUnavailable("it does not answer")
        return [LookupAnswer(200, json.dumps({"topics": self.topics}).encode())]

    async def change(self, _method: str, target: str, _via: str, _body: bytes = b"") -> LookupAnswer:
        assert self.topics is not None
        self.topics.append(target.partition("topic=")[2])
        return LookupAnswer(200, b"")


class FakeRouting:
    """Two clusters, the first of which gets changes that name it."""

    def __init__(self) -> None:
        self.clusters = {"a": FakeCluster("a", "orders"), "b": FakeCluster("b", "mails")}

    def route(self, _topic: str) -> None:
        return None


async def test_lists_are_asked_for_once_a_second_and_anew_after_a_change() -> None:
    routing, clock = FakeRouting(), ManualClock()
    a = routing.clusters["a"]
    app = LookupApp("me", "1", routing, None, clock)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://proxy") as client:

        async def topics() -> Any:
            answer = await client.get("/topics")
            return answer.json()["topics"], answer.headers.get("bus-lookup-missing")

        assert [await topics() for _ in range(3)] == [(["mails", "orders"], None)] * 3
        assert a.asked == 1
        await client.get("/topics?inactive=true")
        assert a.asked == 2
        await client.post("/topic/create?topic=new&cluster=a")
        assert await topics() == (["mails", "new", "orders"], None)
        a.topics = None
        await clock.advance(1)
        assert await topics() == (["mails"], "a")
        routing.clusters = {"c": FakeCluster("c", "other")}
        assert await topics() == (["other"], None)
        routing.clusters["c"].topics = None
        await clock.advance(1)
        for _ in range(2):
            assert (await client.get("/topics")).status_code == 503
        assert routing.clusters["c"].asked == 3, "what failed is asked again at once"
