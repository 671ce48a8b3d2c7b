"""Access to a page or a socket, and the headers for the browser."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from admin.models.responses.access import SessionView
from admin.models.responses.audit import AuditView
from admin.models.responses.base import Listing
from admin.models.responses.configuration import DestinationView
from admin.pages.api_error import ApiError
from admin.pages.site import Site
from bus.security.clients import networks_of
from tests.unit.admin.admin_world import World

SOCKET = "/admin/_nicegui_ws/socket.io/"
PAGE = b"<!doctype html><script>a</script><script type=module>b</script>"


class Pages:
    """Stands for the pages, which are a whole browser's work: notes who came through, and answers."""

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.router = self

    def lifespan_context(self, _: Any) -> Any:
        return self

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, *_: object) -> None:
        return None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.seen.append(scope)
        if scope["type"] == "websocket":
            await self._echo(receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": PAGE[:20], "more_body": True})
        await send({"type": "http.response.body", "body": PAGE[20:]})

    async def _echo(self, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] != "websocket.disconnect":
            if event["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": event["text"]})


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
async def site(world: World, pages: Pages) -> AsyncIterator[Site]:
    stopping = asyncio.Event()
    made = Site(world.services, world.app, lambda: pages)
    async with asyncio.TaskGroup() as group:
        group.create_task(made.run(stopping))
        # Loaded in a thread, which the clock of the test does not wait for.
        async with httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://localhost") as client:
            await client.get("/admin/")
        pages.seen.clear()
        yield made
        stopping.set()


@pytest.fixture
async def browser(site: Site) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(site), base_url="http://localhost") as client:
        yield client


async def socket(site: Site, **headers: str) -> str:
    """Ask for a socket; return what became of it."""
    sent: list[dict[str, Any]] = []

    async def send(event: Any) -> None:
        sent.append(event)

    async def receive() -> Any:
        return {"type": "websocket.disconnect", "code": 1000}

    named = [
        (name.replace("_", "-").encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()
    ]
    scope = {"type": "websocket", "path": SOCKET, "query_string": b"", "headers": named}
    await site(scope, receive, send)
    return str(sent[-1]["type"])


async def test_while_the_bus_is_open_everybody_sees_the_pages(browser: httpx.AsyncClient, pages: Pages) -> None:
    answer = await browser.get("/admin/")
    assert answer.status_code == 200
    assert pages.seen[0]["viewer"].principal.kind == "open"


async def test_a_page_has_a_policy_under_which_only_its_own_scripts_run(browser: httpx.AsyncClient) -> None:
    one, other = await browser.get("/admin/"), await browser.get("/admin/")
    policy = one.headers["content-security-policy"]
    (nonce,) = re.findall(r"'nonce-([^']+)'", policy)
    assert one.content == PAGE.replace(b"<script", f'<script nonce="{nonce}"'.encode())
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert "frame-ancestors 'none'" in policy
    assert other.headers["content-security-policy"] != policy
    assert one.headers["x-content-type-options"] == "nosniff"
    assert one.headers["x-frame-options"] == "DENY"


async def test_who_is_not_known_is_sent_to_log_in_and_back(
    world: World, browser: httpx.AsyncClient, pages: Pages
) -> None:
    await world.context.keyring.add_user("ann", "viewer", ())
    answer = await browser.get("/admin/find?ref=42&x=%26")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/admin/login?next=%2Fadmin%2Ffind%3Fref%3D42%26x%3D%2526"
    assert (await browser.get("/admin/login")).status_code == 200
    assert not pages.seen


async def test_who_has_a_session_comes_through_as_that_person(
    world: World, browser: httpx.AsyncClient, pages: Pages
) -> None:
    password = await world.context.keyring.add_user("ann", "viewer", ("orders",))
    home = {"origin": "http://localhost"}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(world.app), base_url="http://localhost") as api:
        begun = await api.post("/api/v1/session", json={"name": "ann", "password": password}, headers=home)
    browser.cookies.update(begun.cookies)
    assert (await browser.get("/admin/")).status_code == 200
    viewer = pages.seen[0]["viewer"]
    assert (viewer.principal.name, viewer.may("configure"), viewer.may("read", "other")) == ("ann", False, False)
    assert viewer.api.csrf == begun.json()["csrf"]
    assert (await viewer.api.get("/session", SessionView)).name == "ann"


async def test_a_socket_is_held_for_a_page_of_ours_only(site: Site, world: World) -> None:
    assert await socket(site, origin="http://localhost") == "websocket.accept"
    assert await socket(site, origin="http://evil.example") == "websocket.close"
    assert await socket(site, sec_fetch_site="cross-site", origin="http://localhost") == "websocket.close"
    assert await socket(site) == "websocket.close"
    await world.context.keyring.add_user("ann", "viewer", ())
    assert await socket(site, origin="http://localhost") == "websocket.close"


async def test_another_site_cannot_make_a_browser_change_anything(browser: httpx.AsyncClient, pages: Pages) -> None:
    answer = await browser.post("/admin/_nicegui_ws/socket.io/", headers={"sec-fetch-site": "cross-site"})
    assert answer.status_code == 403
    assert not pages.seen


async def test_what_pages_are_made_of_is_for_everybody(world: World, browser: httpx.AsyncClient, pages: Pages) -> None:
    await world.context.keyring.add_user("ann", "viewer", ())
    assert (await browser.get("/admin/_nicegui/3/static/quasar.js")).status_code == 200
    assert (await browser.get("/admin/_nicegui/3/dynamic_resources/x")).status_code == 303
    assert (await browser.get("/admin/assets/1/pier.css")).headers["content-type"].startswith("text/css")
    for name in ("nothing.css", "__init__.py", "..%2f__init__.py", "login.html"):
        assert (await browser.get(f"/admin/assets/1/{name}")).status_code == 404


async def test_the_login_page_runs_nothing_that_stands_in_it(browser: httpx.AsyncClient) -> None:
    answer = await browser.get("/admin/login?next=%3Cscript%3E", headers={"accept-language": "zh-CN,zh;q=0.9"})
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    assert '<html lang="zh"' in answer.text
    assert "登录 Pier" in answer.text
    assert "%3Cscript%3E" not in answer.text
    assert (await browser.post("/admin/login")).status_code == 405


async def test_pages_that_failed_to_load_disturb_nothing_and_are_tried_again(
    world: World, pages: Pages, caplog: pytest.LogCaptureFixture
) -> None:
    stopping, failing = asyncio.Event(), [ImportError("no such module"), ImportError("still none")]

    def load() -> Pages:
        if failing:
            raise failing.pop(0)
        return pages

    made = Site(world.services, world.app, load)
    async with (
        asyncio.TaskGroup() as group,
        httpx.AsyncClient(transport=httpx.ASGITransport(made), base_url="http://localhost") as client,
    ):
        running = group.create_task(made.run(stopping))
        at_once = await asyncio.gather(client.get("/admin/"), client.get("/admin/find"))
        assert [answer.status_code for answer in at_once] == [503, 503]
        assert "cannot be opened" in at_once[0].json()["detail"]
        assert (await client.get("/admin/")).status_code == 503
        assert "no such module" in caplog.text
        assert not running.done()
        assert (await client.get("/admin/")).status_code == 200
        stopping.set()
        await running
        assert (await client.get("/admin/")).status_code == 503


async def test_pages_that_somebody_will_look_at_are_loaded_before_they_are_asked_for(
    world: World, pages: Pages
) -> None:
    stopping, loaded = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def load() -> Pages:
        loop.call_soon_threadsafe(loaded.set)
        return pages

    made = Site(world.services, world.app, load)
    made.expect()
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        group.create_task(made.run(stopping))
        await loaded.wait()
        stopping.set()


async def test_who_asks_for_pages_of_a_bus_that_stops_does_not_wait(world: World) -> None:
    stopping = asyncio.Event()
    closed = Site(world.services, world.app, Pages)
    stopping.set()
    await closed.run(stopping)
    async with (
        asyncio.timeout(5),
        httpx.AsyncClient(transport=httpx.ASGITransport(closed), base_url="http://localhost") as client,
    ):
        assert (await client.get("/admin/")).status_code == 503


class Socket:
    """A browser's end of a socket: what it sends, and what it is sent."""

    def __init__(self, site: Site, cookies: httpx.Cookies) -> None:
        self.sent: list[dict[str, Any]] = []
        self._says: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        cookie = "; ".join(f"{name}={value}" for name, value in cookies.items())
        headers = [(b"host", b"localhost"), (b"origin", b"http://localhost"), (b"cookie", cookie.encode())]
        self._scope = {"type": "websocket", "path": SOCKET, "query_string": b"", "headers": headers}
        self._site = site

    async def hold(self) -> None:
        self.say({"type": "websocket.connect"})
        await self._site(self._scope, self._says.get, self._take)

    def say(self, event: dict[str, Any]) -> None:
        self._says.put_nowait(event)

    async def _take(self, event: Any) -> None:
        self.sent.append(event)
        if event["type"] == "websocket.close":
            self.say({"type": "websocket.disconnect", "code": event["code"]})


async def log_in(world: World, browser: httpx.AsyncClient, name: str = "ann", role: str = "viewer") -> None:
    password = await world.context.keyring.add_user(name, role, ())
    async with httpx.AsyncClient(transport=httpx.ASGITransport(world.app), base_url="http://localhost") as api:
        body = {"name": name, "password": password}
        begun = await api.post("/api/v1/session", json=body, headers={"origin": "http://localhost"})
    browser.cookies.update(begun.cookies)


async def test_a_socket_is_closed_within_seconds_after_its_session_ended(
    world: World, site: Site, browser: httpx.AsyncClient
) -> None:
    await log_in(world, browser)
    held = Socket(site, browser.cookies)
    async with asyncio.TaskGroup() as group:
        group.create_task(held.hold())
        await world.clock.advance(60)
        assert [event["type"] for event in held.sent] == ["websocket.accept"]
        await world.context.keyring.set_password("ann")
        await world.clock.advance(1)
        held.say({"type": "websocket.receive", "text": "echo"})
        await world.clock.settle()
        assert held.sent[-1]["text"] == "echo"
        await world.clock.advance(1)
        assert held.sent[-1] == {"type": "websocket.close", "code": 1008}


async def test_a_socket_is_closed_when_the_bus_is_open_no_longer(world: World, site: Site) -> None:
    held = Socket(site, httpx.Cookies())
    async with asyncio.TaskGroup() as group:
        group.create_task(held.hold())
        await world.clock.advance(10)
        await world.context.keyring.create_key(roles=("producer",))
        await world.clock.advance(2)
        assert held.sent[-1]["type"] == "websocket.close"


async def test_a_socket_outlives_the_store(world: World, site: Site, browser: httpx.AsyncClient) -> None:
    await log_in(world, browser)
    held = Socket(site, browser.cookies)
    async with asyncio.TaskGroup() as group:
        group.create_task(held.hold())
        await world.clock.advance(1)
        world.store.down = True
        await world.clock.advance(10)
        assert held.sent[-1]["type"] == "websocket.accept"
        held.say({"type": "websocket.disconnect", "code": 1000})


@pytest.mark.parametrize(("said", "lasts"), [('42["event",{}]', True), ('42["ack",{}]', False)])
async def test_a_page_that_goes_on_by_itself_keeps_no_session_from_ending(
    world: World, site: Site, browser: httpx.AsyncClient, pages: Pages, *, said: str, lasts: bool
) -> None:
    await log_in(world, browser)
    await browser.get("/admin/")
    viewer = pages.seen[0]["viewer"]
    held = Socket(site, browser.cookies)
    idle = world.services.sessions.limits.idle // 1000
    async with asyncio.TaskGroup() as group:
        group.create_task(held.hold())
        for _ in range(5):
            await world.clock.advance(idle // 4)
            held.say({"type": "websocket.receive", "text": said})
            with contextlib.suppress(ApiError):
                await viewer.api.get("/destinations", Listing[DestinationView])
        await world.clock.advance(5)
        assert (held.sent[-1]["type"] != "websocket.close") == lasts
        held.say({"type": "websocket.disconnect", "code": 1000})


async def test_what_a_page_does_is_noted_with_the_address_that_the_proxy_tells(
    world: World, browser: httpx.AsyncClient, pages: Pages
) -> None:
    world.services.proxies = networks_of("127.0.0.1")
    lines = [("x-forwarded-for", "192.0.2.66"), ("x-forwarded-for", "198.51.100.7")]  # the first one is made up
    await browser.get("/admin/", headers=lines)
    await pages.seen[0]["viewer"].api.put("/destinations/orders", {"transport": "direct"})
    entries = (await pages.seen[0]["viewer"].api.get("/audit", Listing[AuditView])).items
    assert [entry.who.address for entry in entries] == ["198.51.100.7"]
