"""Pages that were sent and that no browser opened a socket for yet: each takes a megabyte or two."""

from __future__ import annotations

from typing import Final

from nicegui import Client

_MOST: Final = 16
_unopened: Final[dict[str, Client]] = {}


def await_socket(client: Client) -> None:
    """Keep a page until its browser opens its socket, and forget the oldest when there are too many such pages.

    NiceGUI keeps each for a minute, however many are asked for by what is not a browser. A browser whose page was
    forgotten reloads it.
    """
    _unopened[client.id] = client
    client.on_connect(lambda: _unopened.pop(client.id, None))
    client.on_delete(lambda: _unopened.pop(client.id, None))
    while len(_unopened) > _MOST:
        next(iter(_unopened.values())).delete()
