"""A collector that takes OTLP over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from bus.error_texts import error_text
from bus.errors import ConfigurationError
from bus.localized_text import AnyText, localized, text_of_error
from bus.spans.otlp import rejected_of

if TYPE_CHECKING:
    import httpx

PATH: Final = "/v1/traces"
_WITHIN: Final = 10.0
_CONTENT_TYPE: Final = "application/x-protobuf"
_ANSWER_BYTES: Final = 64 * 2**10
_OK: Final = 200
_AGAIN: Final = frozenset({429, 502, 503, 504})


class CollectorReply(NamedTuple):
    """What a collector made of a request.

    Attributes
    ----------
    trouble
        Why it did not take it; empty when it did.
    may_repeat
        Whether it may take the same later.
    rejected
        How many spans of one that it took it left out.
    """

    trouble: AnyText = ""
    may_repeat: bool = False
    rejected: int = 0


class Collector(Protocol):
    """Takes encoded spans."""

    async def take(self, body: bytes) -> CollectorReply:
        """Hand over a request; answers within a deadline and never raises for the network."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class HttpCollector:
    """POSTs to ``ENDPOINT/v1/traces`` over a connection that is kept."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], *, within: float = _WITHIN) -> None:
        self._url = f"{endpoint.rstrip('/')}{PATH}"
        self._headers = {"content-type": _CONTENT_TYPE, "user-agent": "Pier/1", **headers}
        self._within = within

    @cached_property
    def _client(self) -> httpx.AsyncClient:
        import httpx  # noqa: PLC0415 - a process without spans sends none

        return httpx.AsyncClient(trust_env=False, timeout=self._within, headers=self._headers)

    async def take(self, body: bytes) -> CollectorReply:
        """Hand over a request, see ``Collector``."""
        import httpx  # noqa: PLC0415

        try:
            async with asyncio.timeout(self._within):
                return await self._post(body)
        except TimeoutError:
            return CollectorReply(
                localized("it did not answer within {seconds} s", seconds=f"{self._within:g}"), may_repeat=True
            )
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return CollectorReply(error_text(error), may_repeat=True)

    async def close(self) -> None:
        """Close the connection."""
        if "_client" in self.__dict__:
            await self._client.aclose()

    async def _post(self, body: bytes) -> CollectorReply:
        async with self._client.stream("POST", self._url, content=body) as answer:
            if answer.status_code == _OK:
                return CollectorReply(rejected=rejected_of(await _first(answer)))
            trouble = localized("{url} answered {status}", url=self._url, status=answer.status_code)
            return CollectorReply(trouble, may_repeat=answer.status_code in _AGAIN)


async def _first(answer: httpx.Response) -> bytes:
    """Return the first bytes of an answer; the rest is not waited for."""
    found = b""
    async for chunk in answer.aiter_raw():  # decoded, a few bytes may be gigabytes
        found += chunk
        if len(found) > _ANSWER_BYTES:
            break
    return found


def parse_headers(text: str) -> dict[str, str]:
    """Read ``name=value,name=value``, values percent-encoded, as ``OTEL_EXPORTER_OTLP_HEADERS`` has them.

    Raises
    ------
    ConfigurationError
        It is something else.
    """
    found: dict[str, str] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        name, equals, value = entry.partition("=")
        name, value = name.strip().lower(), unquote(value.strip())
        if not equals or not name.isascii() or not name or not value.isprintable() or not value.isascii():
            raise ConfigurationError(
                "otel_headers is not name=value, several with commas between", hint="percent-encode what is in values"
            )
        found[name] = value
    return found


def check_endpoint(endpoint: str) -> str:
    """Return the address of a collector; raises ``ConfigurationError`` for one that no request can be made to."""
    try:
        parts = urlsplit(endpoint)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ConfigurationError(f"otel_endpoint {endpoint!r}: {text_of_error(error)}") from error
    if not is_whole or parts.query or parts.fragment or parts.username is not None:
        raise ConfigurationError(
            f"otel_endpoint {endpoint.rpartition('@')[2]!r} is not the http or https address of a collector",
            hint="such as http://127.0.0.1:4318; /v1/traces is appended, and otel_headers has the credentials",
        )
    return endpoint
