"""How much anybody may send to the admin API, known or not."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from starlette.exceptions import HTTPException

LARGEST: Final = 2**20
_Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[_Event]]


def limited(receive: Receive) -> Receive:
    """Return a ``receive`` that refuses a body over the limit (413) as soon as it is over it."""
    total = 0

    async def count() -> _Event:
        nonlocal total
        event = await receive()
        total += len(event.get("body", b""))
        if total > LARGEST:
            raise HTTPException(413, f"a request of the admin API has at most {LARGEST} bytes; nothing was changed")
        return event

    return count
