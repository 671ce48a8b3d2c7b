"""Any response of the provider but a good one to this very login is refused, with the next step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from bus.security.egress import EgressPolicy
from bus.security.oidc import provider as asking
from tests.harness.oidc_provider import REMOVED, OidcProvider
from tests.unit.admin.admin_world import World, problem
from tests.unit.admin.oidc.conftest import Browser

MINUTE = 60_000


async def nobody(world: World, browser: Browser) -> None:
    """Check that nobody was let in."""
    problem(await browser.session(), 401)
    assert world.keyring.all_users() == []
    assert await world.store.list("sessions") == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"nonce": "of another login"}, "nonce"),
        ({"nonce": REMOVED}, "nonce"),
        ({"aud": "another-client"}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": ["the-bus", "another"], "azp": "another"}, "azp"),
        ({"azp": "another"}, "azp"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": REMOVED}, "iss"),
        ({"sub": REMOVED}, "sub"),
        ({"sub": 5}, "sub"),
        ({"exp": REMOVED}, "exp"),
        ({"exp": "soon"}, "exp"),
        ({"iat": REMOVED}, "iat"),
        ({"at_hash": "of another token"}, "at_hash"),
    ],
)
async def test_a_token_that_is_not_for_this_login(
    world: World, provider: OidcProvider, browser: Browser, change: dict[str, Any], told: str
) -> None:
    provider.claims = change
    assert told in problem(await browser.log_in(), 403)["detail"]
    await nobody(world, browser)


@pytest.mark.parametrize(
    ("late", "allowed"), [(5 * MINUTE + 50_000, True), (6 * MINUTE, False), (-50_000, True), (-2 * MINUTE, False)]
)
async def test_clocks_may_differ_by_a_minute(
    world: World, provider: OidcProvider, browser: Browser, late: int, allowed: bool
) -> None:
    provider.now = lambda: world.clock.now() - late
    answer = await browser.log_in()
    if allowed:
        assert answer.status_code == 200
    else:
        problem(answer, 403)
        await nobody(world, browser)


@pytest.mark.parametrize(("alg", "forged"), [("none", False), ("HS256", False), ("RS256", True), ("RS384", False)])
async def test_a_token_that_is_not_signed_as_agreed(
    world: World, provider: OidcProvider, browser: Browser, alg: str, forged: bool
) -> None:
    provider.alg, provider.forged = alg, forged
    assert "the provider's token" in problem(await browser.log_in(), 403)["detail"]
    await nobody(world, browser)


@pytest.mark.parametrize("kid", [None, "the same"])
async def test_new_keys_of_the_provider_are_found(
    world: World, provider: OidcProvider, browser: Browser, kid: str | None
) -> None:
    provider.rotate("the same")
    assert (await browser.log_in()).status_code == 200
    provider.rotate(kid)
    await world.clock.advance(6)
    assert (await browser.log_in()).status_code == 200
    assert provider.asked.count("keys") == 2
    assert provider.asked.count("description") == 1


async def test_forged_tokens_do_not_make_the_bus_ask_for_keys_without_end(
    world: World, provider: OidcProvider, browser: Browser
) -> None:
    provider.forged = True
    for _ in range(5):
        problem(await browser.log_in(), 403)
    assert provider.asked.count("keys") == 1


async def test_a_login_ends_once_and_in_the_browser_that_began_it(
    world: World, provider: OidcProvider, browser: Browser
) -> None:
    back = await browser.go()
    async with world.client() as stranger:
        assert "started in another browser" in problem(await Browser(stranger).come_back(back), 403)["detail"]
        other = Browser(stranger)
        await other.go()
        problem(await other.come_back(back), 403)
    assert provider.asked.count("token") == 0
    kept = browser.bus.cookies["bus_login"]
    assert (await browser.come_back(back)).status_code == 200
    assert "bus_login" not in browser.bus.cookies
    problem(await browser.bus.get(browser.last), 403)
    assert provider.asked.count("token") == 1
    # Whoever kept the cookie has a code that was used.
    browser.bus.cookies.set("bus_login", kept)
    assert "used before" in problem(await browser.bus.get(browser.last), 403)["detail"]
    assert len(await world.store.list("sessions")) == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "",
        lambda cookie: cookie[:-1],
        lambda cookie: "A" + cookie[1:] if cookie[0] != "A" else "B" + cookie[1:],
        lambda cookie: cookie.replace(".", ".9", 1),
        lambda cookie: ".".join([*cookie.split(".")[:2], "L2V2aWw"]),
        lambda cookie: ".".join([*cookie.split(".")[:2], "!!!"]),
        lambda _: "." * 5,
    ],
)
async def test_a_cookie_that_was_changed_ends_nothing(
    world: World, provider: OidcProvider, browser: Browser, change: Callable[[str], str]
) -> None:
    back = await browser.go()
    browser.bus.cookies.set("bus_login", change(browser.bus.cookies["bus_login"]), domain="localhost.local", path="/")
    problem(await browser.come_back(back), 403)
    assert provider.asked.count("token") == 0
    await nobody(world, browser)


async def test_a_login_ends_within_ten_minutes(world: World, browser: Browser) -> None:
    back = await browser.go()
    await world.clock.advance(601)
    assert "ten minutes" in problem(await browser.come_back(back), 403)["detail"]
    await nobody(world, browser)


async def test_a_person_who_says_no_is_told_as_a_page_where_a_browser_asks(
    world: World, provider: OidcProvider, browser: Browser
) -> None:
    provider.denies = True
    assert "access_denied" in problem(await browser.log_in(), 403)["detail"]
    page = await browser.come_back(await browser.go(), accept="text/html,*/*")
    assert page.status_code == 403
    assert page.headers["content-type"].startswith("text/html")
    assert "&lt;b&gt;Ann&lt;/b&gt; said no" in page.text
    assert "<b>" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    await nobody(world, browser)


async def test_an_answer_of_another_provider_and_one_without_a_code(world: World, browser: Browser) -> None:
    back = await browser.go()
    place = back.headers["location"]
    mixed = httpx.Response(303, headers={"location": place.replace("iss=http", "iss=https")})
    assert "another provider" in problem(await browser.come_back(mixed), 403)["detail"]
    bare = httpx.Response(303, headers={"location": place.replace("code=", "c=")})
    assert "no code" in problem(await browser.come_back(bare), 403)["detail"]
    problem(await browser.bus.get("/session/oidc/callback"), 403)
    problem(await browser.bus.get("/session/oidc/callback", params={"state": "x" * 5000}), 422, "state")
    await nobody(world, browser)


class TestAProviderOfItsOwn:
    """One that is stopped, or holds its answers."""

    @pytest.fixture
    def provider(self) -> Iterator[OidcProvider]:
        made = OidcProvider().start()
        yield made
        made.stop()

    async def test_one_that_is_away_is_said_at_both_ends(
        self, world: World, provider: OidcProvider, browser: Browser
    ) -> None:
        back = await browser.go()
        provider.stop()
        found = problem(await browser.come_back(back), 503)
        assert "does not answer" in found["detail"]
        assert "password" in found["hint"]
        world.restart()
        async with world.client() as client:
            answer = await client.get("/session/oidc")
            problem(answer, 503)
            assert answer.headers["retry-after"]
        await nobody(world, browser)

    async def test_one_that_hangs_is_waited_for_within_bounds(
        self, world: World, provider: OidcProvider, browser: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        back = await browser.go()
        provider.held = True
        monkeypatch.setattr(asking, "_WHOLE", 0.3)
        async with asyncio.timeout(10):
            answer = await browser.come_back(back)
        assert "does not answer" in problem(answer, 503)["detail"]
        await nobody(world, browser)


@pytest.mark.parametrize("status", [500, 502, 302])
async def test_a_provider_that_is_broken(world: World, provider: OidcProvider, browser: Browser, status: int) -> None:
    provider.status = status
    problem(await browser.log_in(), 503)
    await nobody(world, browser)


async def test_a_provider_that_gives_no_token_of_who_it_is(
    world: World, provider: OidcProvider, browser: Browser
) -> None:
    provider.lacks_id_token = True
    assert "BUS_OIDC_SCOPES" in problem(await browser.log_in(), 503)["hint"]
    await nobody(world, browser)


async def test_a_provider_that_does_not_know_this_bus(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_OIDC_CLIENT_SECRET", "another")
    world.restart()
    async with world.client() as client:
        assert "BUS_OIDC_CLIENT_ID" in problem(await Browser(client).log_in(), 503)["hint"]


async def test_a_provider_that_calls_itself_otherwise(provider: OidcProvider, browser: Browser) -> None:
    provider.issuer = "https://evil.example"
    found = problem(await browser.bus.get("/session/oidc"), 503)
    assert "evil.example" in found["detail"]
    assert "BUS_OIDC_ISSUER" in found["hint"]


@pytest.mark.parametrize("name", ["jwks_uri", "token_endpoint"])
@pytest.mark.parametrize("host", ["localhost", "keys.example", "bücher.example"])
async def test_an_endpoint_elsewhere_is_asked_where_the_bus_may_call_it(
    world: World, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch, name: str, host: str
) -> None:
    loop = asyncio.get_running_loop()
    resolve, dialed = loop.getaddrinfo, httpx.URL(f"http://{host}").raw_host

    async def resolved(name: str | bytes, *more: Any, **options: Any) -> Any:
        return await resolve("127.0.0.1" if name in (dialed, dialed.decode()) else name, *more, **options)

    monkeypatch.setattr(loop, "getaddrinfo", resolved)
    scheme, port = "http" if host == "localhost" else "https", urlsplit(provider.url).port
    provider.endpoints = {name: f"{scheme}://{host}:{port}/{'keys' if name == 'jwks_uri' else 'token'}"}
    async with world.client() as client:
        answer = await Browser(client).log_in()
        assert answer.status_code == (200 if scheme == "http" else 503), answer.text
    world.egress = EgressPolicy()
    world.restart()
    provider.asked.clear()
    async with world.client() as client:
        refused = problem(await Browser(client).log_in(), 503)
    assert f"its {name} may not be called: The address 127.0.0.1 is loopback" in refused["detail"]
    assert "BUS_EGRESS_ALLOW" in refused["hint"]
    assert provider.asked == (["description"] if name == "token_endpoint" else ["description", "token"])
    world.egress = EgressPolicy(allow=[host])
    world.restart()
    async with world.client() as client:
        assert (await Browser(client).log_in()).status_code == (200 if scheme == "http" else 503)


async def test_who_fails_again_and_again_waits(world: World, provider: OidcProvider, browser: Browser) -> None:
    provider.claims = {"aud": "another"}
    answers = [(await browser.log_in()).status_code for _ in range(25)]
    assert set(answers) == {403, 429}
    assert provider.asked.count("token") < 25
    provider.claims = {}
    await world.clock.advance(61)
    assert (await browser.log_in()).status_code == 200


async def test_nobody_logs_in_while_the_store_is_away(world: World, browser: Browser) -> None:
    back = await browser.go()
    world.store.down = True
    problem(await browser.come_back(back), 503)
    world.store.down = False
    await nobody(world, browser)
