"""HTTP for other processes of the bus: they hand over messages for the direct queue, and due deliveries."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec

from bus.cluster.activity import ACTIVITY, Activity, tell_activity
from bus.cluster.lease import Promise, Question
from bus.cluster.peer_app import PeerApp
from bus.cluster.peers import DELIVERIES, MESSAGES, PROMISE, ROOM, WAITING, PeerKey
from bus.cluster.sampling import SAMPLE, take_sample
from bus.domain.catalog import Catalog
from bus.domain.delivery.delivery import Delivery, decode_delivery
from bus.domain.destination import Ordering
from bus.domain.message import Message, decode_message
from bus.errors import StoreError
from bus.ports.dispatching import LocalDispatcher
from bus.ports.sampling import SamplePoster, SampleResult
from bus.ports.transport import OutgoingMessage, Publisher
from bus.registry import Registry

_log = logging.getLogger(__name__)
_payloads: Final = msgspec.msgpack.Decoder(list[bytes])
_keys: Final = msgspec.msgpack.Decoder(list[tuple[str, str]] | None)
_question: Final = msgspec.msgpack.Decoder(Question)
_waiting: Final = msgspec.msgpack.Decoder(tuple[str, list[bytes]])


@runtime_checkable
class Queue(Publisher, Protocol):
    """The direct queue of this process."""

    async def move_in(self, subscription: str, batch: Sequence[OutgoingMessage]) -> bool:
        """Take what waits elsewhere for a subscription; durable when it returns True."""
        ...


class LocalWorkers(LocalDispatcher, Protocol):
    """The workers of this process."""

    def delivers(self, key: tuple[str, str]) -> bool:
        """Whether a subscription has slots here, and its subscriber answers."""
        ...

    def activity(self, destination: str, subscription: str) -> Activity:
        """Return the present activity of a subscription."""
        ...


class HandoverApp(PeerApp):
    """The requests that a dispatcher takes from the other processes; ``direct`` is this process's direct transport.

    Messages of a destination that keeps an order are taken only while this process ``leads`` it.
    """

    def __init__(
        self,
        direct: Queue,
        dispatching: LocalWorkers,
        sampling: SamplePoster,
        registry: Registry,
        leads: Callable[[str], bool],
        promise: Callable[[Question], Promise],
        key: PeerKey,
    ) -> None:
        self._direct = direct
        self._dispatching = dispatching
        self._sampling = sampling
        self._registry = registry
        self._leads = leads
        self._promise = promise
        self._removed: tuple[Catalog, set[tuple[str, str]]] = (registry.catalog, set())
        calls = {
            MESSAGES: self._messages,
            WAITING: self._waiting,
            DELIVERIES: self._deliveries,
            ROOM: self._room,
            SAMPLE: self._sample,
            ACTIVITY: self._activity,
            PROMISE: self._promised,
        }
        super().__init__(key, calls)

    async def _promised(self, body: bytes) -> Promise:
        """Promise another dispatcher to share no slots without it for some seconds."""
        return self._promise(_question.decode(body))

    async def _messages(self, body: bytes) -> list[bool | None]:
        """Put messages into the direct queue, for the subscriptions that they expect; durable when it returns."""
        batch = [OutgoingMessage(decode_message(payload), payload) for payload in _payloads.decode(body)]
        if not all(self._knows(item.message) for item in batch):
            await self._catch_up([item.message for item in batch])
        # The direct queue confirms a message without holding it for subscriptions that this process has not loaded yet.
        held = [item for item in batch if self._knows(item.message) and self._is_for_us(item.message.destination)]
        taken = {item.message.id: done for item, done in zip(held, await self._direct.publish(held), strict=True)}
        return [taken.get(item.message.id, False) for item in batch]

    async def _waiting(self, body: bytes) -> bool:
        """Take messages that wait for one subscription with a dispatcher without slots, all or none of them."""
        name, payloads = _waiting.decode(body)
        batch = [OutgoingMessage(decode_message(payload), payload) for payload in payloads]
        if not batch:
            return False
        code = batch[0].message.destination
        if not self._is_for_us(code) or not self._dispatching.delivers((code, name)):
            return False
        return await self._direct.move_in(name, batch)

    def _is_for_us(self, code: str) -> bool:
        destination = self._registry.catalog.destinations.get(code)
        return destination is None or destination.ordering is Ordering.NONE or self._leads(code)

    async def _catch_up(self, messages: Sequence[Message]) -> None:
        """Read the configuration again; subscriptions that are still unknown then were removed."""
        try:
            await self._registry.refresh()
            if not all(self._knows(message) for message in messages):
                # A change whose process died before it announced it is found only by reading everything.
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
        """Take leased deliveries; for each False when there was no capacity for it."""
        deliveries: list[Delivery] = [decode_delivery(payload) for payload in _payloads.decode(body)]
        return await self._dispatching.offer(deliveries)

    async def _room(self, body: bytes) -> list[tuple[str, str, int]]:
        keys = _keys.decode(body)
        # A process of an earlier version names none, and asks for all.
        room = await self._dispatching.room(self._registry.catalog.subscriptions if keys is None else keys)
        return [(destination, name, count) for (destination, name), count in room.items()]

    async def _activity(self, body: bytes) -> Activity:
        return tell_activity(body, self._dispatching.activity)

    async def _sample(self, body: bytes) -> SampleResult:
        return await take_sample(body, self._sampling)
