"""People log in at an OpenID Connect provider that runs beside the test, and are users like others."""

from __future__ import annotations

import httpx
import pytest

from admin.access.single_sign_on import single_sign_on
from bus.errors import ConfigurationError
from bus.settings import Settings
from tests.harness.oidc_provider import REMOVED, OidcProvider
from tests.unit.admin.admin_world import World, problem
from tests.unit.admin.oidc.conftest import Browser


async def test_a_login_begins_the_session_of_a_user_with_the_role_that_the_provider_says(
    world: World, browser: Browser, admin: httpx.AsyncClient
) -> None:
    back = await browser.log_in(next="/admin/find?q=a&x=%22")
    assert back.status_code == 200
    assert '<meta http-equiv="refresh" content="0;url=/admin/find?q=a&amp;x=%22">' in back.text
    assert "sandbox" not in back.headers["content-security-policy"]
    cookies = {cookie.partition("=")[0]: cookie for cookie in back.headers.get_list("set-cookie")}
    assert "HttpOnly; Max-Age=43200; Path=/; SameSite=strict" in cookies["bus_session"]
    assert "Max-Age=0" in cookies["bus_login"]
    me = (await browser.session()).json()
    assert (me["kind"], me["name"], me["roles"], me["destinations"]) == ("user", "ann", ["operator"], [])
    assert "resend" in me["may"]
    (user,) = (await admin.get("/users")).json()["items"]
    assert (user["name"], user["role"], user["logs_in_by"], user["blocked"]) == ("ann", "operator", "oidc", False)
    (entry,) = (await admin.get("/audit", params={"who": "ann"})).json()["items"]
    assert (entry["resource"], entry["outcome"]) == ("session/oidc/callback", "done")
    answer = await browser.bus.put(
        "/views/mine", json={"page": "find"}, headers={"sec-fetch-site": "same-origin", "x-csrf-token": me["csrf"]}
    )
    assert answer.status_code == 200
    problem(await browser.bus.put("/views/mine", json={"page": "find"}), 403)


async def test_the_browser_is_bound_by_a_lax_cookie_and_asked_with_pkce(browser: Browser) -> None:
    sent = await browser.bus.get("/session/oidc")
    (cookie,) = sent.headers.get_list("set-cookie")
    assert cookie.startswith("bus_login=")
    assert "HttpOnly; Max-Age=600; Path=/; SameSite=lax" in cookie
    asked = httpx.URL(sent.headers["location"]).params
    assert set(asked) == {
        *("response_type", "client_id", "redirect_uri", "scope", "state", "nonce"),
        *("code_challenge", "code_challenge_method"),
    }
    other = httpx.URL((await browser.bus.get("/session/oidc")).headers["location"]).params
    for name in ("state", "nonce", "code_challenge"):
        assert len(asked[name]) >= 43
        assert asked[name] != other[name]


async def test_behind_tls_the_cookies_are_this_hosts_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUS_PUBLIC_URL", "https://bus.example.com/")
    world.restart()
    async with world.client() as client:
        sent = await client.get("/session/oidc")
    assert sent.headers["set-cookie"].startswith("__Host-bus_login=")
    assert "Secure" in sent.headers["set-cookie"]
    asked = httpx.URL(sent.headers["location"]).params
    assert asked["redirect_uri"] == "https://bus.example.com/api/v1/session/oidc/callback"
    # A neighbour's cookie of the plain name is not looked at.
    value = sent.headers["set-cookie"].partition("=")[2].partition(";")[0]
    async with world.client() as other:
        other.cookies.set("bus_login", value)
        assert (
            "another browser"
            in problem(await other.get("/session/oidc/callback", params={"code": "c", "state": asked["state"]}), 403)[
                "detail"
            ]
        )


@pytest.mark.parametrize(
    ("place", "leads_to"),
    [
        ("/admin/trace/1", "/admin/trace/1"),
        *(("//evil.example", "/admin"), ("https://evil.example", "/admin"), ("/\\evil.example", "/admin")),
        *(("javascript:alert(1)", "/admin"), ("/a b", "/admin"), ("/é", "/admin"), ("/" + "a" * 2001, "/admin")),
    ],
)
async def test_a_login_leads_to_no_other_host(browser: Browser, place: str, leads_to: str) -> None:
    assert f'content="0;url={leads_to}"' in (await browser.log_in(next=place)).text


async def test_the_role_follows_the_provider_at_each_login(
    world: World, provider: OidcProvider, browser: Browser
) -> None:
    await browser.log_in()
    provider.person["groups"] = "staff"
    await browser.log_in()
    assert (await browser.session()).json()["roles"] == ["viewer"]
    provider.person["groups"] = ["nothing", "staff", "root", 7]
    await browser.log_in()
    assert (await browser.session()).json()["roles"] == ["admin"]
    assert len(world.keyring.all_users()) == 1


async def test_who_loses_the_role_is_told_and_loses_the_sessions(
    world: World, provider: OidcProvider, browser: Browser
) -> None:
    await browser.log_in()
    provider.person["groups"] = ["others"]
    async with world.client() as elsewhere:
        refused = problem(await Browser(elsewhere).log_in(), 403)
    assert "'groups'" in refused["detail"]
    assert "BUS_OIDC_ROLES" in refused["hint"]
    problem(await browser.session(), 401)
    provider.person["groups"] = ["oncall"]
    problem(await browser.session(), 401)
    assert (await browser.log_in()).status_code == 200
    assert (await browser.session()).status_code == 200


async def test_destinations_follow_a_claim_and_without_one_nobody_but_an_admin_is_let_in(
    world: World, provider: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUS_OIDC_DESTINATIONS_CLAIM", "bus.destinations")
    monkeypatch.setenv("BUS_OIDC_ROLE_CLAIM", "realm_access.roles")
    monkeypatch.setenv("BUS_OIDC_NAME_CLAIM", "https://example.com/name")
    world.restart()
    provider.person = {
        "sub": "1",
        "https://example.com/name": "ann@example.com",
        "realm_access": {"roles": ["oncall"]},
        "bus": {"destinations": ["orders", "no such/code", 5, "mail"]},
    }
    async with world.client() as client:
        browser = Browser(client)
        assert (await browser.log_in()).status_code == 200
        me = (await browser.session()).json()
        assert (me["name"], me["destinations"]) == ("ann@example.com", ["orders", "mail"])
        for wrong in ({"bus": {"destinations": []}}, {"bus": {"destinations": ["a/b"]}}, {"bus": "x"}, {"bus": None}):
            provider.claims = wrong
            assert "destination" in problem(await browser.log_in(), 403)["detail"]
        provider.claims = {"realm_access": {"roles": ["root"]}, "bus": REMOVED}
        assert (await browser.log_in()).status_code == 200
        assert (await browser.session()).json()["destinations"] == []


@pytest.mark.parametrize("name", [REMOVED, "", "a b", 7, ["ann"], "a" * 129, "../ann", "ann\n"])
async def test_a_name_that_none_can_have_is_refused(provider: OidcProvider, browser: Browser, name: object) -> None:
    provider.claims = {"preferred_username": name}
    assert "BUS_OIDC_NAME_CLAIM" in problem(await browser.log_in(), 403)["hint"]


async def test_nobody_gets_the_name_of_somebody_else(
    world: World, provider: OidcProvider, browser: Browser, admin: httpx.AsyncClient
) -> None:
    await world.keyring.add_user("bob", "admin")
    provider.claims = {"preferred_username": "bob"}
    assert "another user" in problem(await browser.log_in(), 403)["detail"]
    provider.claims = {}
    await browser.log_in()
    provider.person["sub"] = "2"
    assert "another user" in problem(await browser.log_in(), 403)["detail"]
    assert (await browser.session()).status_code == 200
    await admin.delete("/users/ann")
    problem(await browser.session(), 401)
    assert (await browser.log_in()).status_code == 200


async def test_an_admin_blocks_and_removes_who_logs_in_there(browser: Browser, admin: httpx.AsyncClient) -> None:
    await browser.log_in()
    blocked = await admin.patch("/users/ann", json={"blocked": True})
    assert (blocked.status_code, blocked.json()["blocked"]) == (200, True)
    problem(await browser.session(), 401)
    assert "blocked" in problem(await browser.log_in(), 403)["detail"]
    assert (await admin.patch("/users/ann", json={"blocked": False})).json()["blocked"] is False
    problem(await browser.session(), 401)
    assert (await browser.log_in()).status_code == 200
    assert (await admin.delete("/users/ann")).status_code == 204
    problem(await browser.session(), 401)
    assert (await browser.log_in()).status_code == 200


async def test_who_logs_in_there_has_no_password_here(browser: Browser, admin: httpx.AsyncClient, world: World) -> None:
    await browser.log_in()
    csrf = (await browser.session()).json()["csrf"]
    stored = world.keyring.user("ann")
    assert stored is not None
    for password in ("", stored.password):
        problem(await admin.post("/session", json={"name": "ann", "password": password}), 401)
    problem(await admin.post("/users/ann/reset-password"), 409)
    problem(await admin.patch("/users/ann", json={"role": "admin"}), 409)
    problem(await admin.post("/users", json={"name": "ann"}), 409)
    answer = await browser.bus.put(
        "/session/password",
        json={"current_password": "x", "password": "y" * 20},
        headers={"sec-fetch-site": "same-origin", "x-csrf-token": csrf},
    )
    assert "provider" in problem(answer, 409)["detail"]
    assert stored.password not in (await admin.get("/users")).text


async def test_a_login_page_learns_the_ways_to_log_in(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = {"kind": "password", "label": "Password", "url": "/api/v1/session"}
    oidc = {"kind": "oidc", "label": "Our company", "url": "/api/v1/session/oidc"}
    assert (await browser.bus.get("/session/methods")).json() == {"items": [password, oidc], "open": False}
    monkeypatch.delenv("BUS_OIDC_ISSUER")
    world.restart()
    async with world.client() as client:
        assert (await client.get("/session/methods")).json() == {"items": [password], "open": False}
        for path in ("/session/oidc", "/session/oidc/callback"):
            assert "BUS_OIDC_ISSUER" in problem(await client.get(path), 404)["hint"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ISSUER", "http://example.com"), ("ISSUER", "example.com"), ("CLIENT_ID", ""), ("ROLES", "")),
        *(("ROLES", "root=x"), ("ROLES", "admin="), ("ALGORITHMS", "none"), ("ALGORITHMS", "RS256,HS256")),
        ("ALGORITHMS", ""),
    ],
)
async def test_impossible_settings_stop_the_start(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"BUS_OIDC_{name}", value)
    with pytest.raises(ConfigurationError, match="oidc") as raised:
        single_sign_on(Settings(), world.keyring, world.egress, world.clock)
    assert "docs/configuration.md" in raised.value.hint
    assert "s3cret" not in str(raised.value)
