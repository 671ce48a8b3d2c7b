"""One consumer of a strictly ordered queue, on one channel."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from bus.domain.message import Message
from bus.errors import TransportUnavailable
from bus.localized_text import localized
from bus.transports.rabbitmq.channel import ConsumerChannel
from bus.transports.rabbitmq.session import Channel, Session
from bus.transports.rabbitmq.strict.marks import Mark, mark_of

DRAINED: Final = b"drained"
# The same for all consumers of a queue, of all processes: what one had unacked goes to the next one in one go. To one
# that takes fewer the broker would give the first of them, and put these behind the rest when that one goes as well.
PREFETCH: Final = 64


class Intake:
    """Gets messages while it is the queue's active consumer; acks marks itself, and hands them to no reader.

    Parameters
    ----------
    arrived
        Called with each message, its delivery tag, and whether it was delivered before.
    changed
        Called when there is something to look after.
    within
        Deadline of each call in seconds.

    Attributes
    ----------
    consuming
        The consumer; ``unreadable`` has no marks.
    """

    def __init__(
        self,
        channel: Channel,
        queue: str,
        arrived: Callable[[Message, int, bool], None],
        changed: Callable[[], None],
        *,
        within: float,
    ) -> None:
        self.consuming = ConsumerChannel(channel, queue, self._on_arrival, self._on_change, within=within)
        self._channel = channel
        self._queue = queue
        self._arrived = arrived
        self._changed = changed
        self._within = within
        self._came = 0
        self._awaited: dict[str, asyncio.Future[None]] = {}
        self._questions: list[str] = []

    @classmethod
    @asynccontextmanager
    async def opened(
        cls,
        session: Session,
        queue: str,
        arrived: Callable[[Message, int, bool], None] = lambda *_: None,
        changed: Callable[[], None] = lambda: None,
        *,
        within: float,
    ) -> AsyncIterator[Intake]:
        """Open a channel of its own, to ``begin`` on; unacked messages return to the queue in the end.

        Raises
        ------
        TransportError
            The broker does not answer.
        """
        try:
            channel = await session.channel(within=within, confirms=True)
        except TransportUnavailable as error:
            # A broker that waits for a node that is paused, as it does to close a channel, answers nothing else.
            session.abort(str(error))
            raise
        intake = cls(channel, queue, arrived, changed, within=within)
        try:
            yield intake
        finally:
            if session.lost.is_set():
                intake.consuming.end("the connection was lost")
            else:
                await intake.consuming.leave()

    async def begin(self) -> None:
        """Consume from now on; messages may arrive before this returns.

        Raises
        ------
        TransportError
            The broker does not answer, or the queue is not there.
        """
        await self.consuming.consume(PREFETCH)

    def questions(self) -> list[str]:
        """Return where answers are waited for whether the queue is drained, once each."""
        found, self._questions = self._questions, []
        return found

    async def is_drained(self) -> bool:
        """Whether the queue holds nothing: all that came was acked, and a new mark comes with nothing before it.

        A majority of the copies has the acks and the mark then, in this order, as they are of one channel.

        Raises
        ------
        TransportError
            The mark did not come in time: no majority answers, or the active consumer is another one.
        """
        await self.consuming.flush()
        came = self._came
        if self.consuming.outstanding:
            return False
        await self._pass_through(uuid.uuid4().hex)
        return self._came == came and not self.consuming.unreadable

    async def answer(self, reply_to: str, *, is_drained: bool) -> None:
        """Answer a question whether the queue is drained; raises as ``is_drained`` does."""
        answering = self._channel.raw.basic_publish(DRAINED if is_drained else b"", routing_key=reply_to)
        doing = localized("answering from {queue}", queue=self._queue)
        await self._channel.session.call(doing, answering, within=self._within)

    async def _pass_through(self, name: str) -> None:
        """Put a mark into the queue and see it come out."""
        passed = self._awaited[name] = asyncio.get_running_loop().create_future()

        async def pass_through() -> None:
            await self._channel.raw.basic_publish(
                b"", routing_key=self._queue, properties=Mark(name).properties(), mandatory=True, wait=False
            )
            await passed

        doing = localized("seeing a mark pass through {queue}", queue=self._queue)
        try:
            await self._channel.session.call(doing, pass_through(), within=self._within)
        finally:
            del self._awaited[name]

    def _on_arrival(self, message: Message, tag: int, redelivered: bool) -> None:
        self._came += 1
        self._arrived(message, tag, redelivered)

    def _on_change(self) -> None:
        found = [(item, mark_of(item.delivered)) for item in self.consuming.unreadable]
        self.consuming.unreadable = [item for item, mark in found if mark is None]
        for item, mark in found:
            if mark is not None:
                self.consuming.finish([item.tag])
                self._note(mark)
        if self.consuming.gone:
            self._give_up()
        self._changed()

    def _note(self, mark: Mark) -> None:
        passed = self._awaited.get(mark.name)
        if passed is not None and not passed.done():
            passed.set_result(None)
        if mark.reply_to:
            self._questions.append(mark.reply_to)

    def _give_up(self) -> None:
        for passed in self._awaited.values():
            if not passed.done():
                passed.set_exception(TransportUnavailable(self.consuming.gone))
