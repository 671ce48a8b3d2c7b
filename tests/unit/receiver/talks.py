"""Talks with a receiver over a connection without a network: what a peer sends, what it hears, and what came of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import uvicorn

from bus.errors import SpoolError
from bus.serving.server import config as server_config
from bus.settings import Settings
from receiver.endpoint import MessageEndpoint
from tests.harness.gated_spool import once
from tests.harness.wire import JumpingLoop, Wire, anybody, jumping
from tests.unit.receiver.receiver_world import World
from tests.unit.receiver.single_requests import KNOWN, LIMIT, Behind

DEADLINE = 5.0
LONG_AFTER = 500.0
_ID = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


class Heard(NamedTuple):
    """What a peer heard, what came of it, and how often who stands behind the endpoint was asked."""

    answers: bytes
    closed_at: float | None
    stored: list[Any]
    events: list[Any]
    rejected: list[Any]
    asked: int


class Talk(NamedTuple):
    """What a peer sends.

    Attributes
    ----------
    turns
        The server works between the pieces; else it has them all in one turn.
    slow
        The disk takes nothing before the last piece was sent.
    stalls
        The peer reads nothing between the first piece and the last.
    error
        What comes of the first append.
    keys
        The destinations that there is a key for; ``KEY-OF-NAME`` is sent as that of the one of this name.
    """

    pieces: Sequence[bytes]
    turns: bool = True
    slow: bool = False
    stalls: bool = False
    error: SpoolError | None = None
    keys: Sequence[str] = ()


async def _world(talk: Talk) -> World:
    world = World()
    await world.destination("orders", "billing", max_bytes=LIMIT)
    await world.destination("slow", rate=1.0, burst=2)
    world.spool.refuse = once(talk.error)
    if talk.slow:
        world.spool.gate.clear()
    return world


async def _heard(loop: JumpingLoop, talk: Talk, *, has_endpoint: bool) -> Heard:
    world = await _world(talk)
    behind = Behind(world)
    endpoint = MessageEndpoint(world.ingest, world.keyring, world.producers) if has_endpoint else None
    config = server_config(Settings(receive_timeout=DEADLINE), behind, anybody(), endpoint, has_pages=False)
    config.load()
    state = uvicorn.server.ServerState()
    state.default_headers = [(b"date", b"today")]
    wire = Wire(loop, config.http_protocol_class(config, state, {}))
    for piece in await _with_keys(world, talk):
        wire.send(piece)
        if talk.turns:
            await loop.settle()
        if talk.stalls:
            wire.stall()
    if talk.stalls:
        wire.go_on()
    world.spool.gate.set()
    await asyncio.sleep(LONG_AFTER)
    assert not state.connections
    return Heard(
        _ID.sub(b"ID", wire.heard),
        wire.closed_at,
        [_without_id(found) for found in world.stored],
        [_without_id(found) for found in world.events.told],
        [list(world.turned_away.told()), list(world.rejections.told())],
        behind.asked,
    )


async def _with_keys(world: World, talk: Talk) -> list[bytes]:
    pieces = list(talk.pieces)
    for name in talk.keys:
        secret = await world.keyring.create_key(roles=("producer",), destinations=(name,), name=name)
        pieces = [piece.replace(b"KEY-OF-" + name.encode(), secret.encode()) for piece in pieces]
    return pieces


def _without_id(found: Any) -> dict[str, Any]:
    fields = {name: getattr(found, name) for name in found.__struct_fields__}
    return {**fields, "id": fields["id"] if fields["id"] == KNOWN.decode() else "ID"}


def direct(talk: Talk) -> Heard:
    """Have a talk with a server that has an endpoint."""
    return jumping(lambda loop: _heard(loop, talk, has_endpoint=True))


def both(talk: Talk) -> tuple[Heard, Heard]:
    """Have a talk with a server without an endpoint, and with one."""
    without, with_one = jumping(lambda loop: _heard(loop, talk, has_endpoint=False)), direct(talk)
    assert with_one._replace(asked=0) == without._replace(asked=0)
    return without, with_one
