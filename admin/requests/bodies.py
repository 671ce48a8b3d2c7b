"""The limit of request bodies of the admin API, for all callers."""

from __future__ import annotations

import re
from typing import Final

from starlette.exceptions import HTTPException

from admin.models.base import MAX_BODY
from bus.http.asgi import Event, Receive, Scope

LARGEST: Final = 2**20
# Enough for a message's body in base64, with its other fields.
_LARGEST_EDIT: Final = MAX_BODY // 3 * 4 + LARGEST
_EDIT: Final = re.compile(r"/api/v1/messages/[^/]+/edit")
_CONFIGURATION: Final = "/api/v1/configuration"


def limited(scope: Scope, receive: Receive) -> Receive:
    """Return a ``receive`` that refuses a body (413) as soon as more than the limit has arrived."""
    total, largest = 0, _largest(scope.get("path", ""))

    async def count() -> Event:
        nonlocal total
        event = await receive()
        total += len(event.get("body", b""))
        if total > largest:
            raise HTTPException(413, f"this request of the admin API has at most {largest} bytes; nothing was changed")
        return event

    return count


def _largest(path: str) -> int:
    if path == _CONFIGURATION:
        return MAX_BODY
    return _LARGEST_EDIT if _EDIT.fullmatch(path) else LARGEST
