"""Answers of an application that end with their connection."""

from __future__ import annotations

from collections.abc import Callable

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from bus.http.asgi import App, Event, Receive, Scope, Send


def closing(app: App, cycle: RequestResponseCycle, is_early: Callable[[], bool]) -> App:
    """Return an application whose answer says that the connection closes if it ``is_early``."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async def say(event: Event) -> None:
            if event["type"] == "http.response.start" and is_early():
                cycle.keep_alive = False
            await send(event)

        await app(scope, receive, say)

    return application


def unchunked(app: App, cycle: RequestResponseCycle) -> App:
    """Return an application whose answer of an unknown length ends with its connection.

    A client of HTTP/1.0 does not know chunks (RFC 9112, section 6.1).
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        is_framed = True

        async def say(event: Event) -> None:
            nonlocal is_framed
            if event["type"] == "http.response.start":
                is_framed = any(name.lower() == b"content-length" for name, _ in event.get("headers", ()))
                cycle.chunked_encoding = None if is_framed else False
            elif not is_framed:
                cycle.expected_content_length = len(event.get("body", b""))
            await send(event)

        await app(scope, receive, say)

    return application
