"""Has the messages of a strictly ordered destination written by the one process that sends them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.domain.message import Message
from bus.domain.ordering.sender import Admission, ChainSender
from bus.errors import NotLeader
from bus.localized_text import localized
from bus.transports.chains.driver import ChainDriver

_MOST: Final = 256


class _Request(NamedTuple):
    messages: Sequence[Message]
    admission: Admission
    answer: asyncio.Future[Sequence[int]]


class StrictSender:
    """Sends with one write at a time; messages that arrive meanwhile are in the next write, in order of arrival.

    What is asked for waits for ``run``, and is refused from ``end`` on.
    """

    def __init__(self, code: str, rules: ChainSender, driver: ChainDriver) -> None:
        self._code = code
        self._rules = rules
        self._driver = driver
        self._requests: deque[_Request] = deque()
        self._came = asyncio.Event()
        self._has_ended = False

    async def send(self, messages: Sequence[Message], producer: int = 0) -> Sequence[int]:
        """Have messages written in order; return the epochs of those that two copies hold for sure, from the first.

        Whether the others are held is uncertain; their sender has to send them again.

        Raises
        ------
        NotLeader
            Another process or another producer sends, or this process has ended; nothing was written.
        LeaseLost
            Their producer is not the one any more.
        """
        if self._has_ended or not self._rules.tenure.is_held:
            raise self.elsewhere()
        request = _Request(
            messages, Admission(self._rules.tenure.epoch, producer), asyncio.get_running_loop().create_future()
        )
        self._requests.append(request)
        self._came.set()
        return await request.answer

    def elsewhere(self) -> NotLeader:
        """Return the error that names the process that sends instead."""
        chain = self._rules.copy.chain
        url = chain.sender.url if chain is not None else ""
        return NotLeader(
            localized(
                "another process sends to {code}, which keeps a strict order; this message is not accepted",
                code=repr(self._code),
            ),
            hint=localized("send it to {url}", url=url)
            if url
            else localized("send it again: one will, within seconds"),
            url=url,
        )

    def in_doubt(self) -> NotLeader:
        """Return the error for a change that may or may not have been made."""
        return NotLeader(
            localized("the coordinator does not say who sends to {code} alone by now", code=repr(self._code)),
            hint=localized("ask again: what was done already is not done twice"),
        )

    async def run(self) -> None:
        """Write requested messages until cancelled; the outcome of a write under way is unknown then."""
        try:
            while True:
                await self._came.wait()
                self._came.clear()
                while self._requests:
                    if not await self._write(self._next()):
                        self._refuse_all()
        finally:
            self.end()

    def end(self) -> None:
        """Refuse all waiting and later requests."""
        self._has_ended = True
        while self._requests:
            request = self._requests.popleft()
            if not request.answer.done():
                request.answer.set_exception(_broken_off())

    def _next(self) -> list[_Request]:
        """Take requests that can be written together: of one tenure and one producer."""
        first = self._requests.popleft()
        taken, count = [first], len(first.messages)
        while self._requests and self._requests[0].admission == first.admission and count < _MOST:
            taken.append(self._requests.popleft())
            count += len(taken[-1].messages)
        return taken

    def _refuse_all(self) -> None:
        """Refuse all requests at once while no group accepts messages, instead of after one time-out each."""
        while self._requests:
            request = self._requests.popleft()
            if not request.answer.done():
                request.answer.set_result(())

    async def _write(self, requests: Sequence[_Request]) -> bool:
        """Write messages, and answer the requests; False when no group has taken any."""
        messages = [message for request in requests for message in request.messages]
        try:
            held = await self._driver.perform(self._rules.send(messages, requests[0].admission))
        except BaseException as error:
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(error if isinstance(error, NotLeader) else _broken_off())
            if not isinstance(error, NotLeader):
                raise
            return True
        place = 0
        for request in requests:
            following = place + len(request.messages)
            if not request.answer.done():
                request.answer.set_result(held[place:following])
            place = following
        return bool(held) or not messages


def _broken_off() -> NotLeader:
    return NotLeader(
        localized("this process stops; it is unknown whether the message is stored"),
        hint=localized("send it again under the same id: it is delivered once"),
    )
