"""A person logs in at a provider, over a bus that is killed in between, and nothing secret is in its log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.http import PLAIN
from tests.harness.oidc_provider import CLIENT, SECRET, OidcProvider


@pytest.fixture
def provider() -> Iterator[OidcProvider]:
    made = OidcProvider().start()
    yield made
    made.stop()


def test_a_login_survives_the_bus_and_its_secrets_stay_out_of_the_log(tmp_path: Path, provider: OidcProvider) -> None:
    data = tmp_path / "data"
    env = {
        "BUS_OIDC_ISSUER": provider.url,
        "BUS_OIDC_CLIENT_ID": CLIENT,
        "BUS_OIDC_CLIENT_SECRET": SECRET,
        "BUS_OIDC_ROLES": "operator=oncall",
        "BUS_LOG_LEVEL": "debug",
    }
    assert run_bus("key", "create", "--role", "admin", "--data", data).returncode == 0
    with BusProcess(data, env=env) as bus, httpx.Client(timeout=30, **PLAIN) as browser:
        assert browser.get(f"{bus.url}/api/v1/session").status_code == 401
        methods = browser.get(f"{bus.url}/api/v1/session/methods").json()["items"]
        begin = next(item["url"] for item in methods if item["kind"] == "oidc")
        there = browser.get(f"{bus.url}{begin}").headers["location"]
        back = browser.get(there).headers["location"]
        bus.kill()
        bus.start()
        assert browser.get(back).status_code == 200
        assert browser.get(f"{bus.url}/api/v1/session").json()["name"] == "ann"
        assert browser.get(back).status_code == 403
        log = bus.child.log.read_text()
        asked, given = httpx.URL(there).params, httpx.URL(back).params
        for secret in (SECRET, asked["state"], asked["nonce"], given["code"], *browser.cookies.values()):
            assert secret not in log


def test_settings_that_cannot_be_stop_the_start(tmp_path: Path) -> None:
    ran = run_bus("up", "--data", tmp_path / "data", env={"BUS_OIDC_ISSUER": "http://example.com"})
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "oidc" in ran.stderr
