"""The way of a sample to a dispatcher: a call in one process, HTTP between processes."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from bus.cluster.member import Member
from bus.cluster.members import Members
from bus.cluster.peers import PREFIX, Peers
from bus.domain.message import Message, decode_message, encode_message
from bus.errors import PeerUnavailable
from bus.localized_text import AnyText, localized
from bus.ports.sampling import PERMIT_PATIENCE, SamplePoster, SampleResult

SAMPLE: Final = f"{PREFIX}/sample"
_SLACK: Final = 2.0
_answers: Final = msgspec.msgpack.Decoder(SampleResult)


class _Call(msgspec.Struct, frozen=True, array_like=True):
    message: bytes
    subscription: str


_calls: Final = msgspec.msgpack.Decoder(_Call)


class Sampler:
    """Sends samples by the dispatcher of this process, or by another one when that one cannot.

    ``own`` is the dispatcher of this process, None without.
    """

    def __init__(self, members: Members, peers: Peers, own: SamplePoster | None) -> None:
        self._members = members
        self._peers = peers
        self._own = own

    def dispatchers(self) -> list[Member]:
        """Return the dispatchers that could send a sample; raises ``PeerUnavailable`` when none is alive."""
        found = [member for member in self._members.all if member.is_dispatcher]
        if not found:
            raise PeerUnavailable(
                localized("no dispatcher is alive; nothing was sent to the subscriber"),
                hint=localized("start one: {command}", command="bus run dispatcher"),
            )
        return found

    async def sample(self, message: Message, subscription: str, timeout: float) -> SampleResult:  # noqa: ASYNC109 - of the POST
        """Send a message to a subscriber once, by a dispatcher.

        Parameters
        ----------
        timeout
            The subscription's, in seconds.

        Raises
        ------
        PeerUnavailable
            No dispatcher is alive, or each refused or does not answer: nothing was sent, unless it is indeterminate.
        """
        dispatchers = self.dispatchers()
        refused: AnyText = ""
        for member in dispatchers:
            try:
                found = await self._ask(member, message, subscription, timeout)
            except PeerUnavailable as error:
                if error.indeterminate:
                    raise
                refused = error.said
                continue
            if not found.refused:
                return found
            refused = found.refused
        raise PeerUnavailable(
            localized("{refused}; nothing was sent to the subscriber", refused=refused),
            hint=localized("try again in a moment"),
        )

    async def _ask(self, member: Member, message: Message, subscription: str, patience: float) -> SampleResult:
        if member.owner == self._members.me.owner:
            if self._own is None:
                return SampleResult(refused="this process is no dispatcher yet")
            return await self._own.sample(message, subscription)
        within = patience + PERMIT_PATIENCE + _SLACK
        call = _Call(encode_message(message), subscription)
        try:
            async with asyncio.timeout(within + _SLACK):
                return _answers.decode(await self._peers.call(member, SAMPLE, call, within=within))
        except TimeoutError as error:
            said = localized(
                "{url} does not answer within {seconds} s; the sample may have been sent",
                url=member.url,
                seconds=f"{within:g}",
            )
            raise PeerUnavailable(said, indeterminate=True) from error
        except msgspec.DecodeError as error:
            raise PeerUnavailable(
                localized("{url} is of another version: {error}", url=member.url, error=str(error)), indeterminate=True
            ) from error


async def take_sample(body: bytes, sampling: SamplePoster) -> SampleResult:
    """Answer a call of another process's ``Sampler``; raises ``msgspec.DecodeError`` for anything else."""
    call = _calls.decode(body)
    return await sampling.sample(decode_message(call.message), call.subscription)
