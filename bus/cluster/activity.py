"""The work of dispatchers for one subscription: slots in use, and recent attempts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from bus.cluster.member import Member
from bus.cluster.members import Members
from bus.cluster.peers import PREFIX, Peers
from bus.domain.health.vitals import RecentAttempt, WorkerFigures
from bus.errors import PeerUnavailable

ACTIVITY: Final = f"{PREFIX}/activity"
_PATIENCE: Final = 2.0


class Activity(msgspec.Struct, frozen=True, array_like=True):
    """One dispatcher's part: its slots, None where it has no worker, and its last attempts, in that order."""

    permits: WorkerFigures | None = None
    attempts: list[RecentAttempt] = []


class _Call(msgspec.Struct, frozen=True, array_like=True):
    destination: str
    subscription: str


class ActivityReport(NamedTuple):
    """Activity of all dispatchers; ``silent`` is how many did not answer."""

    permits: list[WorkerFigures]
    attempts: list[RecentAttempt]
    silent: int


Own = Callable[[str, str], Activity]
_calls: Final = msgspec.msgpack.Decoder(_Call)
_answers: Final = msgspec.msgpack.Decoder(Activity)


class Activities:
    """Asks the dispatchers that are alive, this process by a call and the others by HTTP, all at once."""

    def __init__(self, members: Members, peers: Peers, own: Own) -> None:
        self._members = members
        self._peers = peers
        self._own = own

    async def of(self, destination: str, subscription: str) -> ActivityReport:
        """Return the activity of all dispatchers for a subscription, the newest attempts first; takes 2 s at most."""
        call = _Call(destination, subscription)
        dispatchers = [member for member in self._members.all if member.is_dispatcher]
        answers = await asyncio.gather(*(self._ask(member, call) for member in dispatchers))
        found = [answer for answer in answers if answer is not None]
        attempts = [attempt for one in found for attempt in one.attempts]
        return ActivityReport(
            [one.permits for one in found if one.permits is not None],
            sorted(attempts, key=lambda attempt: attempt.started_at, reverse=True),
            len(answers) - len(found),
        )

    async def _ask(self, member: Member, call: _Call) -> Activity | None:
        if member.owner == self._members.me.owner:
            return self._own(call.destination, call.subscription)
        try:
            async with asyncio.timeout(_PATIENCE):
                return _answers.decode(await self._peers.call(member, ACTIVITY, call, within=_PATIENCE))
        except (TimeoutError, PeerUnavailable, msgspec.DecodeError):
            return None


def tell_activity(body: bytes, own: Own) -> Activity:
    """Answer a call of another process's ``Activities``; raises ``msgspec.DecodeError`` for anything else."""
    call = _calls.decode(body)
    return own(call.destination, call.subscription)
