"""A Poster that calls nobody: answers are scripted, requests are recorded."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bus.async_helpers import first_of
from bus.ports.poster import OngoingPost, Phases, PostFailure, PostResult, PostWaiter, Target, Trial
from bus.posters.dial import Egress
from bus.posters.target import HttpTarget

_NOTHING = Phases(None, None, None, None, None, None)
_KEPT = 16_384
_KEPT_OF_TRIAL = 65_536


class Reply(NamedTuple):
    """What a scripted subscriber does with a request.

    Attributes
    ----------
    status, headers, body
        The answer.
    failure
        There is no answer, for this reason; a ``TIMEOUT`` comes when the time is over.
    hold
        The answer waits for this event, as long as the time-out allows.
    is_whole
        Whether the answer's body comes to its end; else the connection ends behind what ``body`` has.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    failure: PostFailure | None = None
    hold: asyncio.Event | None = None
    is_whole: bool = True


class PostedRequest(NamedTuple):
    """A request as it was posted; header names in lower case, constant ones included."""

    url: str
    headers: dict[str, str]
    body: bytes
    timeout: float


class MemoryTarget(HttpTarget):
    """An `HttpTarget` that remembers its constant headers."""

    __slots__ = ("constant",)

    def __init__(self, url: str, egress: Egress, headers: dict[str, str]) -> None:
        super().__init__(url, egress.check_url(url), headers)
        self.constant = {name.lower(): value for name, value in headers.items()}


class MemoryPoster:
    """Passes the contract of `Poster` without a network.

    Parameters
    ----------
    egress
        Who may be called; literal addresses are checked when a target is made.
    sleep
        Waits for a number of seconds; a simulated clock's, or asyncio's.

    Attributes
    ----------
    posted
        Every request, in order.
    in_flight, peak
        Requests under way, and the most there ever were at once.
    """

    def __init__(self, egress: Egress, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._egress = egress
        self._sleep = sleep
        self._scripts: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self._kept: set[str] = set()
        self._ongoing: set[_OngoingPost] = set()
        self.posted: list[PostedRequest] = []
        self.in_flight = 0
        self.peak = 0

    def script(self, url: str, *replies: Reply) -> None:
        """Set what the subscriber does, request by request; the last repeats. Without a script it answers 200."""
        self._scripts[url] = deque(replies)

    def target(self, url: str, headers: dict[str, str], method: str = "POST") -> MemoryTarget:  # noqa: ARG002
        """Parse a URL and its constant headers; see `Poster.target`."""
        return MemoryTarget(url, self._egress, headers)

    async def post(
        self,
        target: Target,
        headers: list[tuple[str, str]],
        body: bytes,
        timeout: float,  # noqa: ASYNC109 - the port's name
    ) -> PostResult:
        """Record the request and return what was scripted; see `Poster.post`."""
        return (await self._exchange(target, headers, body, timeout))[0]

    def begin(
        self, target: Target, headers: list[tuple[str, str]], body: bytes, timeout: float, waiter: PostWaiter
    ) -> OngoingPost | None:
        """Post in a task, once something was posted to the URL before; see `Poster.begin`."""
        if target.url not in self._kept:
            return None
        if isinstance(target, MemoryTarget):
            target.render(headers, body)
        ongoing = _OngoingPost(asyncio.ensure_future(self.post(target, headers, body, timeout)), waiter)
        self._ongoing.add(ongoing)
        ongoing.task.add_done_callback(lambda _: self._ongoing.discard(ongoing))
        return ongoing

    async def trial(
        self,
        target: Target,
        headers: list[tuple[str, str]],
        body: bytes,
        timeout: float,  # noqa: ASYNC109 - the port's name
    ) -> Trial:
        """Record the request and return it with what was scripted; see `Poster.trial`."""
        result, reply = await self._exchange(target, headers, body, timeout)
        shown = target.shown(headers, body) if isinstance(target, MemoryTarget) else []
        if result.status is None:
            return Trial(target.url, shown, result, [], 0, body)
        result = result._replace(response=reply.body[:_KEPT_OF_TRIAL])
        return Trial(target.url, shown, result, list(reply.headers), len(reply.body), body)

    async def _exchange(
        self, target: Target, headers: list[tuple[str, str]], body: bytes, patience: float
    ) -> tuple[PostResult, Reply]:
        if not isinstance(target, MemoryTarget):
            raise TypeError(f"{target!r} was not made by MemoryPoster.target()")
        target.render(headers, body)
        own = {name.lower(): value for name, value in headers}
        self.posted.append(PostedRequest(target.url, own | target.constant, body, patience))
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        reply = self._next(target.url)
        self._kept.add(target.url)
        try:
            return await self._answer(reply, patience), reply
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        """Do nothing; there is no connection."""

    def _next(self, url: str) -> Reply:
        script = self._scripts[url]
        if not script:
            return Reply()
        return script.popleft() if len(script) > 1 else script[0]

    async def _answer(self, reply: Reply, patience: float) -> PostResult:
        never = asyncio.Event() if reply.failure is PostFailure.TIMEOUT else None
        if not await self._released(never or reply.hold, patience):
            return _failed(PostFailure.TIMEOUT, patience)
        if reply.failure is not None:
            return _failed(reply.failure, 0.0)
        headers = {name.lower(): value for name, value in reply.headers}
        retry_after = headers.get("retry-after")
        date = headers.get("date") if retry_after else None
        return PostResult(
            reply.status,
            None,
            "",
            False,
            0.0,
            _NOTHING,
            retry_after,
            reply.body[:_KEPT],
            date,
            reply.is_whole and len(reply.body) <= _KEPT,
        )

    async def _released(self, hold: asyncio.Event | None, patience: float) -> bool:
        """Wait for the event or for the time to be over, whichever is first."""
        if hold is None:
            return True
        await first_of(hold.wait(), self._sleep(patience))
        return hold.is_set()


class _OngoingPost:
    def __init__(self, task: asyncio.Future[PostResult], waiter: PostWaiter) -> None:
        self.task = task
        self._waiter = waiter
        task.add_done_callback(self._tell)

    def cancel(self) -> None:
        self.task.cancel()

    def _tell(self, task: asyncio.Future[PostResult]) -> None:
        if not task.cancelled():
            self._waiter.set_result(task.result())


def _failed(kind: PostFailure, seconds: float) -> PostResult:
    reached = kind in (PostFailure.TIMEOUT, PostFailure.RESET, PostFailure.PROTOCOL)
    return PostResult(None, kind, f"scripted: {kind}", reached, seconds * 1000.0, _NOTHING, None, b"")
