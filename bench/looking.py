"""``python -m bench.looking --url URL --viewers N``: so many people who keep the overview open, without their browsers.

Each has a page made, holds its socket as a browser does, and reads what is sent to it. Prints
``{"viewers": N}`` once all look, and goes on until it is ended.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import secrets
from urllib.parse import urlencode

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin

_CLIENT = re.compile(r"""["']client_id["']: ["']([^"']+)""")
_PING, _PONG, _JOIN = "2", "3", "40"
_AT_ONCE = 8


async def look(url: str, looking: asyncio.Event, turn: asyncio.Semaphore) -> None:
    """Open the overview and keep it open."""
    async with turn, httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
        page = await http.get("/admin/")
        client_id = _CLIENT.findall(page.text)[0]
        query = {
            "EIO": "4",
            "transport": "websocket",
            "client_id": client_id,
            "next_message_id": "0",
            "implicit_handshake": "true",
            "document_id": secrets.token_hex(8),
            "tab_id": secrets.token_hex(8),
        }
        place = f"{url.replace('http://', 'ws://')}/admin/_nicegui_ws/socket.io/?{urlencode(query)}"
        socket = await connect(place, origin=Origin(url), proxy=None, max_size=None)
    async with socket:
        await _read(socket, looking)


async def _read(socket: ClientConnection, looking: asyncio.Event) -> None:
    await socket.recv()
    await socket.send(_JOIN)
    async for said in socket:
        looking.set()
        if said == _PING:
            await socket.send(_PONG)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--viewers", type=int, required=True)
    given = parser.parse_args()
    all_look = [asyncio.Event() for _ in range(given.viewers)]
    turn = asyncio.Semaphore(_AT_ONCE)
    async with asyncio.TaskGroup() as group:
        for one in all_look:
            group.create_task(look(given.url, one, turn))
        for one in all_look:
            await one.wait()
        print(json.dumps({"viewers": given.viewers}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
