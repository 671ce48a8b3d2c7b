"""The owner of a socket: the principal who opened it, whose pages alone the socket reaches.

NiceGUI itself asks only for the id of a page, which is in the URL of the page's socket, where a proxy may log it.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import parse_qs

from nicegui import Client, core
from socketio.exceptions import ConnectionRefusedError as Refuse

from admin.access.identity import HOLDER
from bus.security.principals import Principal

_OF_A_PAGE: Final = ("event", "javascript_response", "ack", "log")
_FAILED: Final = "Implicit handshake failed"
"""NiceGUI's own refusal, at which a browser reloads its page: the page may be another principal's."""


def bind_sockets() -> None:
    """Wrap NiceGUI's socket handlers, so that a socket acts only on pages of its owner; once in a process."""
    handlers = core.sio.handlers["/"]
    core.sio.on("connect", _connect(handlers["connect"]))
    core.sio.on("handshake", _handshake(handlers["handshake"]))
    for name in _OF_A_PAGE:
        core.sio.on(name, _of_a_page(handlers[name]))


def _connect(go_on: Callable[..., Any]) -> Callable[..., Any]:
    async def connect(sid: str, environ: dict[str, Any], auth: Any = None) -> None:
        asked = parse_qs(environ.get("QUERY_STRING", "")).get("client_id")
        if asked and not _is_owner(asked[0], environ):
            raise Refuse(_FAILED)
        await go_on(sid, environ, auth)

    return connect


def _handshake(go_on: Callable[..., Any]) -> Callable[..., Any]:
    async def handshake(sid: str, said: dict[str, Any]) -> bool:
        return _is_owner(said["client_id"], core.sio.get_environ(sid)) and bool(await go_on(sid, said))

    return handshake


def _of_a_page(go_on: Callable[..., Any]) -> Callable[..., Any]:
    async def hear(sid: str, said: dict[str, Any]) -> Any:
        if said["client_id"] not in core.sio.rooms(sid):  # a socket joins a page's room by a handshake only
            return None
        answer = go_on(sid, said)
        return await answer if isawaitable(answer) else answer

    return hear


def _is_owner(client_id: str, environ: dict[str, Any]) -> bool:
    """Whether a page was created for the principal who opened a socket."""
    client = Client.instances.get(client_id)
    if client is None:
        return False
    owner: Principal = client.request.scope["viewer"].principal
    holder: Principal = environ["asgi.scope"][HOLDER]
    return (owner.kind, owner.id) == (holder.kind, holder.id)
