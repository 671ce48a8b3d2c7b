from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
import pytest

from tests.harness.http import PLAIN
from tests.harness.oidc_provider import CLIENT, SECRET, OidcProvider
from tests.unit.admin.admin_world import World


@pytest.fixture(scope="session")
def serving() -> Iterator[OidcProvider]:
    made = OidcProvider().start()
    yield made
    made.stop()


@pytest.fixture
def provider(serving: OidcProvider) -> OidcProvider:
    """Return a provider that errs in nothing; a test that stops or holds one makes its own."""
    serving.reset(serving.now)
    return serving


@pytest.fixture
def oidc_settings(provider: OidcProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "ISSUER": provider.url,
        "CLIENT_ID": CLIENT,
        "CLIENT_SECRET": SECRET,
        "ROLES": "admin=admins, root; operator=oncall; viewer=staff",
        "LABEL": "Our company",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"BUS_OIDC_{name}", value)


@pytest.fixture
async def world(oidc_settings: None, provider: OidcProvider) -> World:
    """Make a bus that has a provider, and is closed."""
    made = World()
    provider.now = made.clock.now
    await made.keyring.create_key(roles=("admin",))
    return made


@dataclass
class Browser:
    """One browser: it keeps the cookies of the bus, and goes to the provider by real HTTP."""

    bus: httpx.AsyncClient
    csrf: str = ""
    last: str = field(default="", init=False)

    async def go(self, **asked: str) -> httpx.Response:
        """Begin a login, and return how the provider sends the browser back."""
        sent = await self.bus.get("/session/oidc", params=asked)
        assert sent.status_code == 303, sent.text
        async with httpx.AsyncClient(**PLAIN) as http:
            return await http.get(sent.headers["location"])

    async def come_back(self, answer: httpx.Response, **headers: str) -> httpx.Response:
        """Follow the provider's answer."""
        place = urlsplit(answer.headers["location"])
        self.last = f"/session/oidc/callback?{place.query}"
        assert place.path == f"/api/v1{self.last.partition('?')[0]}"
        return await self.bus.get(self.last, headers=headers)

    async def log_in(self, **asked: str) -> httpx.Response:
        """Log in at the provider."""
        return await self.come_back(await self.go(**asked))

    async def session(self) -> httpx.Response:
        """Ask who one is."""
        return await self.bus.get("/session")


@pytest.fixture
async def browser(world: World) -> AsyncIterator[Browser]:
    async with world.client() as client:
        yield Browser(client)


@pytest.fixture
async def admin(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client(await world.keyring.create_key(roles=("admin",), name="root")) as client:
        yield client
