"""The security headers of every answer of the admin: a browser must not render, cache or share it."""

from __future__ import annotations

from typing import Final

from bus.http.asgi import Event, Send

HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)


def guarded(send: Send) -> Send:
    """Return a ``send`` that adds the headers which an answer does not have itself."""

    async def add(event: Event) -> None:
        if event["type"] == "http.response.start":
            own = list(event.get("headers", ()))
            names = {name.lower() for name, _ in own}
            event["headers"] = [*own, *(header for header in HEADERS if header[0] not in names)]
        await send(event)

    return add
