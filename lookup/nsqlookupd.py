"""HTTP to nsqlookupds, each under its own deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

import httpx

from bus.errors import EgressDenied
from bus.sentences import Said, sentence
from lookup.exchanges import Exchanges, Failed

ACCEPT: Final = "application/vnd.nsq; version=1.0"
VIA: Final = "bus-lookup-via"
"""Header with the proxies that a request has passed, so that one that comes back is known."""
_MOST_BYTES: Final = 16 * 2**20
_FAILURE: Final = 500
_MOST_SHOWN: Final = 200
_HOP_BY_HOP: Final = frozenset(
    {"connection", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
)


class Away(Exception):
    """An nsqlookupd gave no usable answer in time.

    Attributes
    ----------
    said
        Why, for people.
    """

    def __init__(self, said: Said) -> None:
        super().__init__(str(said))
        self.said = said


class Answered(NamedTuple):
    """A whole answer below 500."""

    status: int
    content: bytes


class Passed(NamedTuple):
    """An answer that is passed on as it comes."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    pieces: AsyncIterator[bytes]


class NsqlookupdClient:
    """Asks nsqlookupds over kept connections; ``me`` is how this proxy is known to itself."""

    def __init__(self, me: str) -> None:
        self._me = me
        self._exchanges = Exchanges(_MOST_BYTES)
        self._passing = httpx.AsyncClient(trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._exchanges.close()
        await self._passing.aclose()

    async def ask(self, address: str, target: str, *, within: float, method: str = "GET", via: str = "") -> Answered:
        """Return a whole answer.

        Raises
        ------
        Away
            There is none within so many seconds, it is larger than any nsqlookupd's, or it is a failure (5xx).
        """
        length = "" if method == "GET" else "content-length: 0\r\n"
        head = (
            f"{method} {target} HTTP/1.1\r\nhost: {address}\r\naccept: {ACCEPT}\r\n"
            f"{VIA}: {self._passed(via)}\r\n{length}\r\n"
        )
        try:
            status, content = await self._exchanges.ask(
                address, head.encode("latin-1"), within, repeatable=method == "GET"
            )
        except TimeoutError:
            raise Away(_silent(address, within)) from None
        except (Failed, EgressDenied, UnicodeError) as error:
            raise Away(_unreached(address, error)) from error
        if status >= _FAILURE:
            raise Away(
                sentence(
                    "http://{address} fails: HTTP {status} {text}",
                    address=address,
                    status=status,
                    text=content[:_MOST_SHOWN].decode("utf-8", "replace"),
                )
            )
        return Answered(status, content)

    @asynccontextmanager
    async def passing(
        self,
        address: str,
        method: str,
        target: str,
        headers: Mapping[bytes, bytes],
        body: AsyncIterator[bytes],
        within: float,
    ) -> AsyncIterator[Passed]:
        """Pass a request on as it is, and give its answer, whose pieces may come for as long as they like.

        Raises
        ------
        Away
            No answer begins within so many seconds.
        """
        kept = [(name, value) for name, value in headers.items() if name.decode("latin-1") not in _HOP_BY_HOP]
        via = headers.get(VIA.encode(), b"").decode("latin-1")
        kept = [(name, value) for name, value in kept if name != VIA.encode()]
        request = self._passing.build_request(
            method,
            f"http://{address}{target}",
            headers=[*kept, (VIA.encode(), self._passed(via).encode())],
            content=body if b"content-length" in headers or b"transfer-encoding" in headers else None,
            timeout=httpx.Timeout(None, connect=within),
        )
        try:
            async with asyncio.timeout(within):
                response = await self._passing.send(request, stream=True)
        except TimeoutError:
            raise Away(_silent(address, within)) from None
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise Away(_unreached(address, error)) from error
        try:
            fields = [
                (name.lower(), value)
                for name, value in response.headers.raw
                if name.lower().decode("latin-1") not in _HOP_BY_HOP
            ]
            yield Passed(response.status_code, fields, response.aiter_raw())
        finally:
            await response.aclose()

    def _passed(self, via: str) -> str:
        return f"{via},{self._me}" if via else self._me


def passed_by(via: bytes, me: str) -> bool:
    """Whether a request with this header has passed a proxy before."""
    return me in via.decode("latin-1").split(",")


def _silent(address: str, within: float) -> Said:
    return sentence("http://{address} does not answer within {seconds} s", address=address, seconds=f"{within:g}")


def _unreached(address: str, error: Exception) -> Said:
    return sentence("cannot reach http://{address}: {error}", address=address, error=str(error) or type(error).__name__)
