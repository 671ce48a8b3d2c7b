"""In a real browser, with its own rules about cookies: a login at a provider on another site holds at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.oidc_provider import CLIENT, SECRET, OidcProvider


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    made = OidcProvider()
    made.asks = True
    yield made.start()
    made.stop()


def test_who_logs_in_at_another_site_is_logged_in_on_the_first_page(
    tmp_path: Path, provider: OidcProvider, chromium: Browser
) -> None:
    data = tmp_path / "data"
    env = {
        "BUS_OIDC_ISSUER": provider.url,
        "BUS_OIDC_CLIENT_ID": CLIENT,
        "BUS_OIDC_CLIENT_SECRET": SECRET,
        "BUS_OIDC_ROLES": "operator=oncall",
    }
    assert run_bus("key", "create", "--role", "admin", "--data", data).returncode == 0
    with BusProcess(data, env=env) as bus:
        # To a browser localhost and 127.0.0.1 are two sites.
        me = f"http://localhost:{bus.port}/api/v1/session"
        context = chromium.new_context()
        page = context.new_page()
        page.goto(f"{me}/oidc?next=/api/v1/session")
        assert page.url.startswith(provider.url)
        page.click("#yes")
        page.wait_for_url(me)
        expect(page.locator("body")).to_contain_text('"name":"ann"')
        cookies = {cookie["name"]: (cookie["sameSite"], cookie["httpOnly"]) for cookie in context.cookies()}
        assert cookies == {"bus_session": ("Strict", True), "bus_device": ("Strict", True)}
        provider.denies = True
        page.goto(f"{me}/oidc")
        page.click("#yes")
        expect(page.locator("body")).to_contain_text("access_denied: <b>Ann</b> said no")
        context.close()
