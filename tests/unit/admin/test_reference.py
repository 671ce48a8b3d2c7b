"""The page of the API, and what it is made of."""

from __future__ import annotations

import re

import httpx
import pytest

from admin.reference import Reference


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference()


async def asked(reference: Reference, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    transport = httpx.ASGITransport(reference)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.request(method, path, headers={"accept-encoding": "identity", **headers})


async def test_the_page_loads_nothing_from_elsewhere(reference: Reference) -> None:
    answer = await asked(reference, "/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "script-src 'self';" in answer.headers["content-security-policy"]
    loaded = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    assert len(loaded) == 3
    assert not [url for url in loaded if url.startswith(("/", "http"))]  # a proxy may have put the bus below a path


async def test_files_are_sent_packed_to_whoever_takes_that(reference: Reference) -> None:
    plain = await asked(reference, "/docs/swagger-ui-bundle.js")
    packed = await asked(reference, "/docs/swagger-ui-bundle.js", **{"accept-encoding": "gzip"})
    assert plain.headers["content-type"].startswith("text/javascript")
    assert (plain.content, packed.headers["content-encoding"]) == (packed.content, "gzip")
    assert int(packed.headers["content-length"]) < len(plain.content) / 2


@pytest.mark.parametrize(
    ("path", "method", "status"), [("/docs/../x", "GET", 404), ("/docs/core.py", "GET", 404), ("/docs", "POST", 405)]
)
async def test_there_is_nothing_else(reference: Reference, path: str, method: str, status: int) -> None:
    assert (await asked(reference, path, method)).status_code == status
