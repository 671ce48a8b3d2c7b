"""Over real sockets a single message is answered the same by the endpoint and by the application."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
import uvicorn
import uvloop

from bus.serving.server import config as server_config
from bus.settings import Settings
from receiver.endpoint import MessageEndpoint
from tests.harness.wire import anybody
from tests.unit.receiver.receiver_world import World
from tests.unit.receiver.single_requests import ALL, KNOWN, LIMIT, REFUSED, TAKEN, Behind, post

DEADLINE = 1.0
LAST = post(b"connection: close", to=b"/last")
_VARYING = re.compile(rb"date: [^\r]*\r\n|[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


async def _said(port: int, request: bytes) -> bytes:
    """Return what a server says to a request, and to the last one behind it, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    await asyncio.sleep(0)
    writer.write(LAST)
    try:
        async with asyncio.timeout(60):
            return _VARYING.sub(b"", await reader.read())
    finally:
        writer.close()


async def _answers(*, has_endpoint: bool) -> tuple[dict[str, bytes], list[bytes], int]:
    """Return what each request is answered, what is stored, and how often the application was asked."""
    world = World()
    await world.destination("orders", "billing", max_bytes=LIMIT)
    behind = Behind(world)
    endpoint = MessageEndpoint(world.ingest, world.keyring, world.producers) if has_endpoint else None
    config = server_config(Settings(receive_timeout=DEADLINE), behind, anybody(), endpoint, has_pages=False)
    config.load()
    state = uvicorn.server.ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: config.http_protocol_class(config, state, {}), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        said = await asyncio.gather(*(_said(port, request) for request in ALL.values()))
    finally:
        server.close()
        await server.wait_closed()
    stored = sorted(msgspec.json.encode(_without_id(message)) for message in world.stored)
    return dict(zip(ALL, said, strict=True)), stored, behind.asked


def _without_id(message: Any) -> dict[str, Any]:
    fields = {name: getattr(message, name) for name in message.__struct_fields__}
    return {**fields, "id": fields["id"] if fields["id"] == KNOWN.decode() else ""}


def test_every_request_is_answered_the_same() -> None:
    without, stored_without, asked_without = uvloop.run(_answers(has_endpoint=False))
    answers, stored, asked = uvloop.run(_answers(has_endpoint=True))
    assert answers == without
    assert stored == stored_without
    assert asked <= asked_without - len(TAKEN) - len(REFUSED)
