"""The HTTP client by which the bus asks other systems, whose answers have bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import httpx


class _BoundedBody(httpx.AsyncByteStream):
    """The body of an answer, up to a number of bytes."""

    def __init__(self, body: httpx.AsyncByteStream, most: int) -> None:
        self._body = body
        self._most = most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._most
        async for piece in self._body:
            left -= len(piece)
            if left < 0:
                raise httpx.ReadError(f"the answer has more than {self._most} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


def bounded_client(most: int, **options: Any) -> httpx.AsyncClient:
    """Return a client that reads at most so many bytes of an answer, and follows no redirect.

    An answer that has more of them, or is in a content coding, which may unfold to gigabytes, raises an
    ``httpx.TransportError`` or ``httpx.DecodingError``. Time limits of httpx are for single reads: the caller has one
    for the whole.

    Parameters
    ----------
    options
        Of ``httpx.AsyncClient``.
    """

    async def bound(answer: httpx.Response) -> None:
        coding = answer.headers.get("content-encoding", "identity")
        if coding != "identity":
            raise httpx.DecodingError(f"the answer is in the coding {coding[:40]!r}, which was not asked for")
        answer.stream = _BoundedBody(cast("httpx.AsyncByteStream", answer.stream), most)

    client = httpx.AsyncClient(follow_redirects=False, event_hooks={"response": [bound]}, **options)
    client.headers["accept-encoding"] = "identity"
    return client
