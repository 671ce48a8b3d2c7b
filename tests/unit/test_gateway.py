"""The one HTTP door of a process: what is answered there, and what becomes of errors inside."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from bus.serving import Gateway
from tests.unit.admin.admin_world import World, problem


async def fails(scope: Any, receive: Any, send: Any) -> None:
    secret = "the body of a message"
    raise RuntimeError("a bug", len(secret))


async def fails_late(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    raise RuntimeError("a late bug")


@pytest.fixture
def world() -> World:
    return World()


def client(world: World, routes: dict[str, Any] | None = None, *, raises: bool = False) -> httpx.AsyncClient:
    world.offer(routes=routes or {})
    transport = httpx.ASGITransport(Gateway(world.context, world.introspection), raise_app_exceptions=raises)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def test_a_bug_is_a_500_and_logged_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async with client(world, {"/v1": fails}, raises=True) as asking:
        document = problem(await asking.post("/v1/messages/orders?key=secret", content=b"body"), 500)
    assert "not lost" in document["detail"]
    assert document["hint"]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "POST /v1/messages/orders failed"
    assert record.exc_info is not None


async def test_a_bug_after_the_answer_began_ends_the_connection(world: World) -> None:
    async with client(world, {"/v1": fails_late}, raises=True) as asking:
        with pytest.raises(RuntimeError, match="late"):
            await asking.get("/v1")


async def test_a_bug_behind_the_admin_api_is_a_500_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(world.store, "search", broken)
    async with client(world, {"/api": world.app}) as asking:
        problem(await asking.get("/api/v1/messages"), 500)


async def test_what_is_not_there_is_a_404(world: World) -> None:
    async with client(world) as asking:
        for path in ("/", "/nowhere", "/v1", "/healthz/", "/%00"):
            problem(await asking.get(path), 404)


async def test_the_address_alone_leads_to_the_pages_where_there_are_some(world: World) -> None:
    async with client(world, {"/admin": fails}) as asking:
        answer = await asking.get("/")
        assert (answer.status_code, answer.headers["location"]) == (307, "admin")
        problem(await asking.post("/"), 405)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_only_reading_is_answered(world: World, path: str) -> None:
    async with client(world) as asking:
        assert (await asking.get(path)).status_code == 200
        answer = await asking.post(path)
        problem(answer, 405)
        assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/metrics", "/readyz", "/nowhere"])
async def test_while_the_bus_is_open_a_foreign_host_is_refused(world: World, path: str) -> None:
    async with client(world) as asking:
        problem(await asking.get(path, headers={"host": "evil.example"}), 403)
        assert (await asking.get("/healthz", headers={"host": "evil.example"})).status_code == 200
        await world.keyring.create_key(roles=("admin",))
        assert (await asking.get(path, headers={"host": "evil.example"})).status_code != 403
