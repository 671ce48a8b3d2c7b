"""From a process without a dispatcher to one that has one: messages that no broker takes, and due deliveries."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from bus.cluster.leaders import Task
from bus.cluster.member import Member
from bus.cluster.members import Members
from bus.cluster.peers import DELIVERIES, MESSAGES, ROOM, WAITING, Peers
from bus.domain.delivery.delivery import Delivery, encode_delivery
from bus.domain.destination import Destination, TransportName
from bus.domain.message import Message, encode_message
from bus.domain.subscription import Subscription
from bus.errors import PeerUnavailable
from bus.localized_text import AnyText, localized
from bus.ports.clock import Clock
from bus.ports.transport import OutgoingMessage

_log = logging.getLogger(__name__)
Item = TypeVar("Item")
_ROOM_KEPT: Final = 0.2
_BUNDLE: Final = 4 * 2**20
_TRIES: Final = 7
"""Calls to a dispatcher that may hold a message before another one gets it: some seconds, as the publisher waits."""
_MOST_DOUBTFUL: Final = 10_000
_PUBLISHING: Final = frozenset({"receiver", "compensator", "sweeper"})
"""Roles that hand messages to dispatchers."""
_TAKEN: Final = msgspec.msgpack.encode(True)
_results: Final = msgspec.msgpack.Decoder(list[bool | None])
_rooms: Final = msgspec.msgpack.Decoder(list[tuple[str, str, int]])


class OrderLeaders(Protocol):
    """Which dispatcher alone delivers the messages of a destination."""

    def is_ordered(self, code: str) -> bool:
        """Whether one alone does, since the destination keeps an order."""
        ...

    def leader(self, task: Task, code: str) -> Member | None:
        """Return it, when it is alive."""
        ...


class _UnconfirmedHandover(NamedTuple):
    """The dispatcher that may hold a message, and how often it was called for it."""

    owner: str
    tries: int


class HandoverPublisher:
    """Publishes for a process without a dispatcher: to the direct queue of one that is alive.

    A dispatcher that does not answer may hold the messages that it was handed. It recognises a repeated message and
    another dispatcher does not, so it is called again first: until it answers, has ended, or has had ``_TRIES`` calls.
    """

    def __init__(self, members: Members, peers: Peers, leading: OrderLeaders) -> None:
        self._members = members
        self._peers = peers
        self._leading = leading
        self._turn = itertools.count()
        self._doubts: OrderedDict[str, _UnconfirmedHandover] = OrderedDict()

    @property
    def name(self) -> str:
        """Return ``direct``."""
        return TransportName.DIRECT

    def check(self, destination: Destination) -> None:
        """Take every destination."""

    async def run(self) -> None:
        """Wait: there is nothing to keep up."""
        await asyncio.Event().wait()

    async def publish(self, batch: Sequence[OutgoingMessage]) -> list[bool | None]:
        """Hand messages to a dispatcher, another one when it cannot be reached; durable there when it confirms."""
        wanted = [item for item in batch if item.message.expected]
        taken = iter(await self._hand(wanted) if wanted else ())
        return [not item.message.expected or next(taken) for item in batch]

    def conditions(self) -> dict[str, AnyText]:
        """Return whether there is a dispatcher, for a process that hands messages to one."""
        if _PUBLISHING.isdisjoint(self._members.me.roles):
            return {}
        return {
            "dispatchers": "" if _dispatchers(self._members) else localized("no dispatcher is alive; messages wait")
        }

    async def close(self) -> None:
        """Do nothing: the connections belong to the code that opened them."""

    async def _hand(self, batch: Sequence[OutgoingMessage]) -> list[bool | None]:
        taken: list[bool | None] = []
        code = batch[0].message.destination
        for holder, part in itertools.groupby(batch, self._holder):
            for bundle in _bundles(list(part), lambda item: len(item.payload)):
                # No message passes one that exceeds the capacity: otherwise a large one might never fit. Where an order
                # is kept, none passes one that was not taken.
                is_held = None in taken or (False in taken and self._leading.is_ordered(code))
                taken += [None] * len(bundle) if is_held else await self._hand_bundle(code, holder, bundle)
        return taken

    def _holder(self, item: OutgoingMessage) -> str:
        """Return the dispatcher that has to be called for a message, since it may hold it; empty for any."""
        doubt = self._doubts.get(item.message.id)
        if doubt is None or doubt.tries >= _TRIES:
            return ""
        return doubt.owner if any(member.owner == doubt.owner for member in _dispatchers(self._members)) else ""

    def _takers(self, code: str, holder: str) -> list[Member]:
        if self._leading.is_ordered(code):
            leader = self._leading.leader(Task.DELIVERING, code)
            return [leader] if leader is not None else []
        if holder:
            return [member for member in _dispatchers(self._members) if member.owner == holder]
        return _in_turn(_dispatchers(self._members), next(self._turn))

    async def _hand_bundle(self, code: str, holder: str, bundle: list[OutgoingMessage]) -> list[bool | None]:
        payloads = [item.payload for item in bundle]
        for member in self._takers(code, holder):
            try:
                answers = _answers(await self._peers.call(member, MESSAGES, payloads), len(payloads))
            except PeerUnavailable as error:
                _log.warning("%d messages are not handed over: %s", len(payloads), error)
                self._note_unanswered(member.owner, bundle, may_hold=error.indeterminate)
                if error.indeterminate:
                    break
            else:
                for item in bundle:
                    self._doubts.pop(item.message.id, None)
                return answers
        return [False] * len(bundle)

    def _note_unanswered(self, owner: str, bundle: list[OutgoingMessage], *, may_hold: bool) -> None:
        for item in bundle:
            known = self._doubts.get(item.message.id)
            tries = known.tries if known is not None and known.owner == owner else 0
            if may_hold or tries:
                self._doubts[item.message.id] = _UnconfirmedHandover(owner, tries + 1)
        while len(self._doubts) > _MOST_DOUBTFUL:
            self._doubts.popitem(last=False)


class WaitingHandover:
    """Hands messages of a subscription to a dispatcher that has slots for it, when this one has none."""

    def __init__(self, members: Members, peers: Peers, leading: OrderLeaders) -> None:
        self._members = members
        self._peers = peers
        self._leading = leading

    async def hand(self, subscription: Subscription, messages: Sequence[Message]) -> int:
        """Return how many of the messages, from the first on, are durable with a dispatcher that has slots.

        A message whose answer was lost may be there as well; that dispatcher recognises it when it comes again.
        """
        handed = 0
        holders = self._holders(subscription)
        for payloads in _bundles([encode_message(message) for message in messages], len) if holders else ():
            if not await self._hand_bundle(holders, subscription, payloads):
                break
            handed += len(payloads)
        return handed

    def _holders(self, subscription: Subscription) -> list[Member]:
        if self._leading.is_ordered(subscription.destination):
            leader = self._leading.leader(Task.DELIVERING, subscription.destination)
            return [leader] if leader is not None else []
        view, name = self._members.shares.view, "/".join(subscription.key)
        others = [member for member in self._members.others if member.is_dispatcher]
        return [member for member in others if view.share(member.sharer, name, subscription.max_concurrency)]

    async def _hand_bundle(self, holders: Sequence[Member], subscription: Subscription, payloads: list[bytes]) -> bool:
        for member in holders:
            try:
                answer = await self._peers.call(member, WAITING, [subscription.name, payloads])
            except PeerUnavailable as error:
                _log.warning("%d messages wait for a permit here: %s", len(payloads), error)
                if error.indeterminate:  # it may hold them, and recognises them when they come again
                    return False
                continue
            if answer == _TAKEN:
                return True
        return False


class RemoteDispatching:
    """Hands due deliveries to the dispatchers that have capacity for them."""

    def __init__(self, members: Members, peers: Peers, clock: Clock) -> None:
        self._members = members
        self._peers = peers
        self._clock = clock
        self._rooms: dict[str, dict[tuple[str, str], int]] = {}
        self._asked_at = float("-inf")
        self._asked: set[tuple[str, str]] = set()

    @property
    def is_local(self) -> bool:
        """Return False: deliveries that were handed over outlive this process."""
        return False

    async def room(self, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return how many deliveries each of these subscriptions takes, over all dispatchers, as of a moment ago."""
        now = self._clock.monotonic()
        if now - self._asked_at >= _ROOM_KEPT:
            self._asked_at, self._asked, self._rooms = now, set(), {}
        if unknown := set(keys) - self._asked:
            self._asked |= unknown
            dispatchers = _dispatchers(self._members)
            answers = await asyncio.gather(*(self._ask(member, unknown) for member in dispatchers))
            for member, answer in zip(dispatchers, answers, strict=True):
                self._rooms.setdefault(member.owner, {}).update(answer)
        total: dict[tuple[str, str], int] = {}
        for rooms in self._rooms.values():
            for key, room in rooms.items():
                total[key] = total.get(key, 0) + room
        return total

    async def offer(self, deliveries: Sequence[Delivery]) -> list[bool]:
        """Hand each delivery to a dispatcher with capacity; return whether it was taken, or may have been."""
        chosen = [self._choose(delivery) for delivery in deliveries]
        taken = [False] * len(deliveries)
        for member in _dispatchers(self._members):
            places = [place for place, owner in enumerate(chosen) if owner == member.owner]
            if places:
                answers = await self._hand(member, [deliveries[place] for place in places])
                for place, answer in zip(places, answers, strict=True):
                    taken[place] = answer
        return taken

    def _choose(self, delivery: Delivery) -> str | None:
        key = (delivery.message.destination, delivery.subscription)
        owner = max(self._rooms, key=lambda owner: self._rooms[owner].get(key, 0), default=None)
        if owner is None or self._rooms[owner].get(key, 0) <= 0:
            return None
        self._rooms[owner][key] -= 1
        return owner

    async def _ask(self, member: Member, keys: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        try:
            answer = _rooms.decode(await self._peers.ask(member, ROOM, keys))
        except (PeerUnavailable, msgspec.DecodeError) as error:
            _log.warning("a dispatcher is left out: %s", error)
            return {}
        return {(destination, name): room for destination, name, room in answer}

    async def _hand(self, member: Member, deliveries: list[Delivery]) -> list[bool]:
        taken: list[bool] = []
        for bundle in _bundles([encode_delivery(delivery) for delivery in deliveries], len):
            taken += await self._hand_bundle(member, bundle)
        return taken

    async def _hand_bundle(self, member: Member, deliveries: list[bytes]) -> list[bool]:
        try:
            answers = _answers(await self._peers.call(member, DELIVERIES, deliveries), len(deliveries))
        except PeerUnavailable as error:
            _log.warning("%d deliveries are not handed over: %s", len(deliveries), error)
            self._rooms.pop(member.owner, None)
            # Deliveries that may be on their way stay leased, so that no other dispatcher starts them as well.
            return [error.indeterminate] * len(deliveries)
        return [bool(answer) for answer in answers]


def _answers(content: bytes, count: int) -> list[bool | None]:
    """Return a dispatcher's answers, as many as expected; raises ``PeerUnavailable`` for any other content."""
    try:
        found = _results.decode(content)
    except msgspec.DecodeError as error:
        raise PeerUnavailable(
            localized("a dispatcher of another version answers: {error}", error=str(error)), indeterminate=True
        ) from error
    if len(found) != count:
        raise PeerUnavailable(
            localized("a dispatcher answers for {found} of {count}", found=len(found), count=count), indeterminate=True
        )
    return found


def _dispatchers(members: Members) -> list[Member]:
    return [member for member in members.all if member.is_dispatcher]


def _in_turn(members: list[Member], turn: int) -> list[Member]:
    """Return all, beginning with another one each turn."""
    start = turn % len(members) if members else 0
    return members[start:] + members[:start]


def _bundles(items: Sequence[Item], size_of: Callable[[Item], int]) -> Iterator[list[Item]]:
    """Yield items in order, so many at once as fit into one request."""
    bundle: list[Item] = []
    size = 0
    for item in items:
        if bundle and size + size_of(item) > _BUNDLE:
            yield bundle
            bundle, size = [], 0
        bundle.append(item)
        size += size_of(item)
    if bundle:
        yield bundle
