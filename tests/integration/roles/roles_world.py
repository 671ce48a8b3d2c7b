"""All roles in this process on real spools and a real store, without a server; and subscribers behind real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from bus.bootstrap import ROLES, Context, Introspection, compose, introspect, load_roles, offers_of, open_context
from bus.serving import Gateway
from bus.serving.gauges import spool_offers
from bus.settings import Settings

PATIENCE = 60.0


class Call(NamedTuple):
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    hold: asyncio.Event | None = None
    takes: float = 0.0  # seconds


@dataclass
class Place:
    """One path of the subscriber: what it answers, the last for ever, and what it got."""

    answers: list[Answer] = field(default_factory=lambda: [Answer()])
    calls: list[Call] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0

    @property
    def ids(self) -> list[str]:
        return [call.headers["webhook-id"] for call in self.calls]

    @property
    def bodies(self) -> list[bytes]:
        return [call.body for call in self.calls]


class Subscriber:
    """An HTTP server that does what the test says, path by path."""

    def __init__(self) -> None:
        self._paths: dict[str, Place] = {}
        self._tasks: set[asyncio.Task] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 22)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def at(self, path: str, *answers: Answer) -> Place:
        found = self._paths.setdefault(path, Place())
        if answers:
            found.answers = list(answers)
        return found

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                first, *lines = head.split("\r\n")[:-2]
                headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                body = await reader.readexactly(int(headers["content-length"]))
                answer = await self._answer(self.at(first.split(" ")[1]), Call(headers, body))
                extra = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
                writer.write(f"HTTP/1.1 {answer.status} Why\r\ncontent-length: 0\r\n{extra}\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, path: Place, call: Call) -> Answer:
        path.calls.append(call)
        path.in_flight += 1
        path.peak = max(path.peak, path.in_flight)
        answer = path.answers.pop(0) if len(path.answers) > 1 else path.answers[0]
        try:
            if answer.hold is not None:
                await answer.hold.wait()
            if answer.takes:
                await asyncio.sleep(answer.takes)
        finally:
            path.in_flight -= 1
        return answer


class Bus:
    """The roles at work, and a client of their API."""

    def __init__(self, context: Context, introspection: Introspection, client: httpx.AsyncClient) -> None:
        self.context = context
        self.introspection = introspection
        self.client = client

    async def api(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        answer = await self.client.request(method, f"/api/v1{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json() if answer.content else None

    async def subscribe(self, name: str, url: str, destination: str = "orders", **fields: Any) -> Any:
        if destination not in self.context.registry.catalog.destinations:
            await self.api("PUT", f"/destinations/{destination}", {})
        return await self.api("PUT", f"/destinations/{destination}/subscriptions/{name}", {"url": url, **fields})

    async def send(self, body: bytes = b"{}", destination: str = "orders", **headers: str) -> str:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.client.post(f"/v1/messages/{destination}", content=body, headers=named)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    async def trace(self, message_id: str) -> dict[str, Any] | None:
        answer = await self.client.get(f"/api/v1/messages/{message_id}")
        return answer.json() if answer.status_code == 200 else None

    async def traced(self, message_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until the message's deliveries have these statuses, by name of the subscription."""

        async def found() -> dict[str, Any] | None:
            trace = await self.trace(message_id)
            states = [delivery["status"] for delivery in trace["deliveries"]] if trace else None
            return trace if states == list(statuses) else None

        return await until_async(found, f"{message_id} is {statuses}", lambda: message_id)


async def until(condition: Callable[[], Any], what: str, within: float = PATIENCE) -> Any:
    """Wait until a condition is true, with a deadline."""

    async def found() -> Any:
        return condition()

    return await until_async(found, what, within=within)


async def until_async(
    condition: Callable[[], Any], what: str, state: Callable[[], object] | None = None, within: float = PATIENCE
) -> Any:
    deadline = time.monotonic() + within
    while not (found := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what} {state() if state else ''}")
        await asyncio.sleep(0.005)
    return found


@asynccontextmanager
async def running(data: Path, *, crash: bool = False, **settings: Any) -> AsyncIterator[Bus]:
    """Run every role on a data directory; at the end stop them in order, or all at once as a crash does."""
    values = {"data": data, "disk_reserve": 0, **settings}
    async with open_context(Settings(**values), ROLES, "http://127.0.0.1:1") as context:
        services, offers = compose(context, load_roles(ROLES), offers_of(context) | spool_offers(context))
        introspection = introspect(context, offers)
        tasks: list[tuple[asyncio.Task[None], asyncio.Event]] = []
        for service in services:
            ready, stopping = asyncio.Event(), asyncio.Event()
            task = asyncio.create_task(service.run(ready, stopping))
            tasks.append((task, stopping))
            waiting = asyncio.create_task(ready.wait())
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            assert ready.is_set(), task
        transport = httpx.ASGITransport(Gateway(context, introspection))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30) as client:
            try:
                yield Bus(context, introspection, client)
                died = [task for task, _ in tasks if task.done()]
                assert not died, died
            finally:
                for task, stopping in reversed(tasks):
                    stopping.set()
                    if crash:
                        task.cancel()
                    else:
                        await asyncio.wait([task], timeout=PATIENCE)
                results = await asyncio.gather(*(task for task, _ in tasks), return_exceptions=True)
        if not crash:
            assert results == [None] * len(tasks), results
