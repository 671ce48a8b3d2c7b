"""HTTP to nsqlookupds, each under its own deadline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import httpx

from bus.error_texts import error_text
from bus.errors import EgressDenied
from bus.localized_text import AnyText, localized
from lookup.exchanges import ExchangeFailed, Exchanges

ACCEPT: Final = "application/vnd.nsq; version=1.0"
VIA: Final = "bus-lookup-via"
"""Header with the proxies that a request has passed, so that one that comes back is known."""
_MOST_BYTES: Final = 8 * 2**20
_FAILURE: Final = 500
_MOST_SHOWN: Final = 200
_MOST_PASSED: Final = 32
_PASSED_IDLE: Final = 60.0
"""Seconds in which something of a request that is passed on must come, or go."""
_HOP_BY_HOP: Final = frozenset(
    {
        *("connection", "content-length", "date", "host", "keep-alive", "proxy-connection", "te", "trailer"),
        *("transfer-encoding", "upgrade"),
    }
)


class LookupUnavailable(Exception):
    """An nsqlookupd gave no usable answer in time.

    Attributes
    ----------
    said
        Why, for people.
    is_here
        Whether it did answer, so that only this question has no answer.
    """

    def __init__(self, said: AnyText, *, is_here: bool = False) -> None:
        super().__init__(str(said))
        self.said = said
        self.is_here = is_here


class LookupAnswer(NamedTuple):
    """A whole answer below 500."""

    status: int
    content: bytes


class StreamedAnswer(NamedTuple):
    """An answer that is passed on as it comes."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    pieces: AsyncIterator[bytes]


class NsqlookupdClient:
    """Asks nsqlookupds over kept connections; ``me`` is how this proxy is known to itself."""

    def __init__(self, me: str, now: Callable[[], float]) -> None:
        self._me = me
        self._now = now
        self._closed: dict[str, float] = {}
        self._exchanges = Exchanges(_MOST_BYTES, self._note_closed)
        limits = httpx.Limits(max_connections=_MOST_PASSED, max_keepalive_connections=0)
        self._passing = httpx.AsyncClient(trust_env=False, limits=limits)
        self._passing.headers.clear()

    async def close(self) -> None:
        """Close the connections."""
        await self._exchanges.close()
        await self._passing.aclose()

    def closed_at(self, address: str) -> float:
        """Return when an nsqlookupd last closed a connection by itself; long ago for one that never did."""
        return self._closed.get(address, float("-inf"))

    def _note_closed(self, address: str) -> None:
        self._closed[address] = self._now()

    async def ask(
        self, address: str, target: str, *, within: float, method: str = "GET", via: str = "", body: bytes = b""
    ) -> LookupAnswer:
        """Return a whole answer.

        Raises
        ------
        Away
            There is none within so many seconds, it is larger than any nsqlookupd's, or it is a failure (5xx).
        """
        length = "" if method == "GET" else f"content-length: {len(body)}\r\n"
        head = (
            f"{method} {target} HTTP/1.1\r\nhost: {address}\r\naccept: {ACCEPT}\r\n"
            f"{VIA}: {self._passed(via)}\r\n{length}\r\n"
        )
        try:
            status, content = await self._exchanges.ask(
                address, head.encode("latin-1") + body, within, repeatable=method == "GET"
            )
        except TimeoutError:
            raise LookupUnavailable(_silent(address, within)) from None
        except (ExchangeFailed, EgressDenied, UnicodeError) as error:
            raise LookupUnavailable(_unreached(address, error)) from error
        if status >= _FAILURE:
            raise LookupUnavailable(
                localized(
                    "http://{address} fails: HTTP {status} {text}",
                    address=address,
                    status=status,
                    text=content[:_MOST_SHOWN].decode("utf-8", "replace"),
                ),
                is_here=True,
            )
        return LookupAnswer(status, content)

    @asynccontextmanager
    async def passing(
        self,
        address: str,
        method: str,
        target: str,
        headers: Mapping[bytes, bytes],
        within: float,
    ) -> AsyncIterator[StreamedAnswer]:
        """Pass a request without a body on as it is, and give its answer, whose pieces may come for a long time.

        Raises
        ------
        Away
            No connection is possible within so many seconds, or nothing comes for a minute.
        """
        own = {VIA.encode(): self._passed(headers.get(VIA.encode(), b"").decode("latin-1")).encode()}
        kept = [
            (name, value)
            for name, value in headers.items()
            if name.decode("latin-1") not in _HOP_BY_HOP and name not in own
        ]
        host, _, port = address.rpartition(":")
        url = httpx.URL(scheme="http", host=host.strip("[]"), port=int(port), raw_path=target.encode("latin-1"))
        request = httpx.Request(
            method,
            url,
            headers=[(b"host", address.encode()), *kept, *own.items()],
            extensions={"timeout": {"connect": within, "pool": within, "read": _PASSED_IDLE, "write": _PASSED_IDLE}},
        )
        try:
            response = await self._passing.send(request, stream=True)
        except httpx.PoolTimeout as error:
            raise LookupUnavailable(localized("too much is passed on at this moment"), is_here=True) from error
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise LookupUnavailable(_unreached(address, error)) from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise LookupUnavailable(_unreached(address, error), is_here=True) from error
        try:
            fields = [
                (name.lower(), value)
                for name, value in response.headers.raw
                if name.lower().decode("latin-1") not in _HOP_BY_HOP
            ]
            yield StreamedAnswer(response.status_code, fields, _pieces(response, address))
        finally:
            await response.aclose()

    def _passed(self, via: str) -> str:
        return f"{via},{self._me}" if via else self._me


async def _pieces(response: httpx.Response, address: str) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_raw():
            yield piece
    except httpx.HTTPError as error:
        raise LookupUnavailable(_unreached(address, error), is_here=True) from error


def passed_by(via: bytes, me: str) -> bool:
    """Whether a request with this header has passed a proxy before."""
    return me in via.decode("latin-1").split(",")


def _silent(address: str, within: float) -> AnyText:
    return localized("http://{address} does not answer within {seconds} s", address=address, seconds=f"{within:g}")


def _unreached(address: str, error: Exception) -> AnyText:
    return localized("cannot reach http://{address}: {error}", address=address, error=error_text(error, address))
