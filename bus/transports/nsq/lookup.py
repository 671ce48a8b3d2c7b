"""The nsqds that several nsqlookupds list."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bus.localized_text import AnyText, localized, text_of_error
from bus.transports.nsq.config import Address
from bus.transports.nsq.errors import NsqFault
from bus.transports.nsq.protocol.http import NsqHttp, Peer
from bus.transports.nsq.topology import Lane

_log = logging.getLogger(__name__)


class FoundNode(NamedTuple):
    """One nsqd: the port of its HTTP API, the topics to read from it, and whether it keeps partitions of them."""

    http: int
    topics: frozenset[str]
    is_fork: bool = False


class Lookup:
    """The union of the nsqlookupds' answers; one that is unreachable does not matter.

    Attributes
    ----------
    nodes
        The last good answer: kept while none answers.
    troubles
        What is wrong with each nsqlookupd; empty text for one that is well.
    """

    def __init__(self, addresses: Sequence[Address], http: NsqHttp) -> None:
        self._http = http
        self.nodes: Mapping[Address, FoundNode] = {}
        self.troubles: dict[Address, AnyText] = dict.fromkeys(addresses, localized("not asked yet"))

    async def poll(self) -> None:
        """Ask all of them once, at the same time; never raises for the network."""
        answers = await asyncio.gather(*(self._ask(address) for address in self.troubles))
        good = [answer for answer in answers if answer is not None]
        if good:
            self.nodes = _union(good)

    async def forget(self, lane: Lane) -> None:
        """Delete a channel from the nsqlookupds that answer: an nsqd would make it again with its topic."""
        await asyncio.gather(*(self._forget(address, lane) for address in self.troubles))

    async def _forget(self, address: Address, lane: Lane) -> None:
        try:
            await self._http.forget(address, *lane)
        except NsqFault as fault:
            _log.warning("nsqlookupd %s may still know channel %s/%s: %s", address, *lane, fault)

    async def _ask(self, address: Address) -> list[Peer] | None:
        try:
            peers = await self._http.nodes(address)
        except NsqFault as fault:
            if not self.troubles[address]:
                _log.warning("nsqlookupd %s does not help: %s", address, fault)
            self.troubles[address] = text_of_error(fault)
            return None
        self.troubles[address] = ""
        return peers


def _union(answers: Sequence[Sequence[Peer]]) -> dict[Address, FoundNode]:
    nodes: dict[Address, FoundNode] = {}
    for peer in (peer for answer in answers for peer in answer):
        address = Address(peer.broadcast_address, peer.tcp_port)
        known = nodes.get(address)
        topics = _readable(peer) if known is None else known.topics | _readable(peer)
        nodes[address] = FoundNode(peer.http_port, topics, bool(peer.distributed_id))
    return nodes


def _readable(peer: Peer) -> frozenset[str]:
    topics = peer.topics or []
    tombstones = peer.tombstones or [False] * len(topics)
    return frozenset(topic for topic, tombstone in zip(topics, tombstones, strict=False) if not tombstone)
