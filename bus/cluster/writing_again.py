"""Passes a message that came too late to the process that sends to its strictly ordered destination."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from bus.cluster.members import Members
from bus.cluster.peer_app import PeerApp
from bus.cluster.peers import PREFIX, PeerKey, Peers
from bus.domain.message import Message, decode_message, encode_message
from bus.errors import PeerUnavailable

AGAIN: Final = f"{PREFIX}/again"
_request: Final = msgspec.msgpack.Decoder(tuple[str, bytes])
_answer: Final = msgspec.msgpack.Decoder(bool)


class StrictWriter(Protocol):
    """Writer to strictly ordered destinations (`bus.transports.chains.chains.Chains`)."""

    def sends(self, code: str) -> bool:
        """Whether this process sends to a destination."""
        ...

    async def send_again(self, code: str, message: Message) -> bool:
        """Write a message behind all others; False when that did not work."""
        ...


class WritingAgain:
    """The way to that process."""

    def __init__(self, members: Members, peers: Peers) -> None:
        self._members = members
        self._peers = peers

    async def ask(self, owner: str, code: str, message: Message) -> bool:
        """Return whether a process has written a message; False also when it does not answer."""
        member = next((one for one in self._members.all if one.owner == owner), None)
        if member is None:
            return False
        try:
            return _answer.decode(await self._peers.call(member, AGAIN, (code, encode_message(message))))
        except (PeerUnavailable, msgspec.DecodeError):
            return False


class WritingAgainApp(PeerApp):
    """Requests to write messages again, handled in a receiver."""

    def __init__(self, sending: StrictWriter, key: PeerKey) -> None:
        self._sending = sending
        super().__init__(key, {AGAIN: self._again})

    async def _again(self, body: bytes) -> bool:
        code, payload = _request.decode(body)
        return self._sending.sends(code) and await self._sending.send_again(code, decode_message(payload))
