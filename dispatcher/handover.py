"""HTTP for the other processes of the bus: messages for the direct queue, due deliveries, and how many it takes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Final

import msgspec

from bus.cluster.peers import CONTENT_TYPE, DELIVERIES, MESSAGES, ROOM, PeerKey
from bus.domain import problem
from bus.domain.catalog import Catalog
from bus.domain.delivery import Delivery, decode_delivery
from bus.domain.message import Message, decode_message
from bus.errors import StoreError
from bus.ports.dispatching import Dispatching
from bus.ports.transport import Outgoing, Transport
from bus.registry import Registry

_log = logging.getLogger(__name__)
_LONGEST: Final = 32 * 2**20
_payloads: Final = msgspec.msgpack.Decoder(list[bytes])

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HandoverApp:
    """Takes msgpack from processes that have the key of this bus, and answers msgpack.

    ``direct`` is this process's direct road.
    """

    def __init__(self, direct: Transport, dispatching: Dispatching, registry: Registry, key: PeerKey) -> None:
        self._direct = direct
        self._dispatching = dispatching
        self._registry = registry
        self._key = key
        self._removed: tuple[Catalog, set[tuple[str, str]]] = (registry.catalog, set())
        self._calls = {MESSAGES: self._messages, DELIVERIES: self._deliveries, ROOM: self._room}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        call = self._calls.get(scope["path"])
        if call is None:
            await _refuse(send, 404, f"there is nothing at {scope['path'][:200]}")
        elif not await self._is_peer(scope):
            await _refuse(send, 401, "this is for processes of the same bus")
        else:
            try:
                answer = await call(await _body(receive))
            except (msgspec.DecodeError, ValueError) as error:
                await _refuse(send, 400, f"another version of the bus speaks here: {error}")
            else:
                await _send(send, 200, CONTENT_TYPE, msgspec.msgpack.encode(answer))

    async def _is_peer(self, scope: Scope) -> bool:
        shown = next((value for name, value in scope["headers"] if name == b"authorization"), None)
        try:
            return await self._key.is_current(shown)
        except StoreError as error:
            _log.warning("another process shows a key that this one does not know, and the store is away: %s", error)
            return False

    async def _messages(self, body: bytes) -> list[bool]:
        """Put messages into the direct queue, for the subscriptions that they expect; durable when it returns."""
        batch = [Outgoing(decode_message(payload), payload) for payload in _payloads.decode(body)]
        if not all(self._knows(item.message) for item in batch):
            await self._catch_up([item.message for item in batch])
        # Without the configuration of now, a message for somebody unknown would be confirmed without being held.
        held = [item for item in batch if self._knows(item.message)]
        taken = {item.message.id: done for item, done in zip(held, await self._direct.publish(held), strict=True)}
        return [taken.get(item.message.id, False) for item in batch]

    async def _catch_up(self, messages: Sequence[Message]) -> None:
        """Read the configuration again; what is unknown then was removed."""
        try:
            await self._registry.refresh()
            if not all(self._knows(message) for message in messages):
                # A change that its maker did not live to announce is found only by reading everything.
                await self._registry.load()
        except StoreError as error:
            _log.warning("messages expect subscriptions that are not known here yet, and the store is away: %s", error)
            return
        catalog = self._registry.catalog
        removed = {(message.destination, name) for message in messages for name in self._unknown(message)}
        known = self._removed[1] if self._removed[0] is catalog else set()
        self._removed = (catalog, known | removed)

    def _knows(self, message: Message) -> bool:
        """Whether each subscription that a message expects is held here, or was removed."""
        catalog, removed = self._removed
        unknown = {(message.destination, name) for name in self._unknown(message)}
        return not unknown or (catalog is self._registry.catalog and unknown <= removed)

    def _unknown(self, message: Message) -> set[str]:
        return set(message.expected) - set(self._registry.catalog.names(message.destination))

    async def _deliveries(self, body: bytes) -> list[bool]:
        """Take leased deliveries; for each False when there was no room for it."""
        deliveries: list[Delivery] = [decode_delivery(payload) for payload in _payloads.decode(body)]
        return await self._dispatching.offer(deliveries)

    async def _room(self, _: bytes) -> list[tuple[str, str, int]]:
        return [(destination, name, room) for (destination, name), room in (await self._dispatching.room()).items()]


async def _body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] != "http.request":
            raise ValueError("the connection was closed before the body was whole")
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > _LONGEST:
            raise ValueError(f"more than {_LONGEST} bytes at once")
        if not event.get("more_body"):
            return b"".join(parts)


async def _refuse(send: Send, status: int, detail: str) -> None:
    await _send(send, status, problem.CONTENT_TYPE, msgspec.json.encode(problem.problem(status, detail)))


async def _send(send: Send, status: int, content_type: str, body: bytes) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
