"""One subscription's end of a group."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from bus.async_helpers import first_of, lasting
from bus.domain.message import Message
from bus.errors import TransportError, TransportUnavailable
from bus.localized_text import localized
from bus.ports.clock import Clock
from bus.ports.quarantine import Quarantine
from bus.ports.transport import IncomingMessage
from bus.transports.backoff import Backoff
from bus.transports.rabbitmq.buffer import Buffer, HeldDelivery
from bus.transports.rabbitmq.config import Patience
from bus.transports.rabbitmq.connection import Connection
from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.session import Session
from bus.transports.rabbitmq.setting_aside import set_aside
from bus.transports.rabbitmq.strict.intake import Intake
from bus.transports.rabbitmq.strict.names import queue_of

_log = logging.getLogger(__name__)
_FIRST_BACKOFF: Final = 0.1


class RabbitmqGroupReader:
    """Starts to consume a queue when it is made, and again whenever its channel or connection is lost.

    What a reader still holds then comes to it no second time: its ack counts for what the broker delivers again.

    Parameters
    ----------
    group
        Its name.
    noise
        Random numbers from 0 to 1.
    left
        Called when it is closed.
    """

    def __init__(
        self,
        group: str,
        lane: Lane,
        connection: Connection,
        quarantine: Quarantine,
        left: Callable[[RabbitmqGroupReader], None],
        patience: Patience,
        clock: Clock,
        noise: Callable[[], float],
    ) -> None:
        self.lane = lane
        self._place = f"{queue_of(lane)} on {group}"
        self._connection = connection
        self._quarantine = quarantine
        self._left = left
        self._patience = patience
        self._clock = clock
        self._backoff = Backoff(_FIRST_BACKOFF, patience.longest_backoff, noise)
        self._buffer = Buffer()
        self._intake: Intake | None = None
        self._asked: list[asyncio.Future[bool]] = []
        self._trouble = ""
        self._is_closing = False
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(lasting(f"reading {self._place}", self._run, clock.sleep))

    async def receive(self, limit: int) -> list[IncomingMessage]:
        """Wait for messages and return at least one, at most ``limit``; cancelling loses none."""
        while not (entries := self._buffer.take(limit)):
            await self._buffer.filled.wait()
        return [IncomingMessage(entry.message, entry, entry.suspect) for entry in entries]

    def ack(self, incoming: Sequence[IncomingMessage]) -> None:
        """Finish messages."""
        self._buffer.finish(_entries(incoming))

    def release(self, incoming: Sequence[IncomingMessage]) -> None:
        """Give messages back; this reader gets them first."""
        self._buffer.give_back(_entries(incoming))

    async def is_drained(self) -> bool:
        """Whether a majority of the copies says that nothing is there; False as well when none answers in time."""
        answer = asyncio.get_running_loop().create_future()
        self._asked.append(answer)
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * self._patience.answer):
                return bool(await answer)
        return False

    async def close(self) -> None:
        """Send the acks, and give back the rest, as far as the broker answers in time."""
        self._left(self)
        self._is_closing = True
        self._wake.set()
        if self._intake is None:
            self._task.cancel()
        _, late = await asyncio.wait([self._task], timeout=self._patience.close)
        for task in late:
            task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def settle(self, tag: int) -> None:
        """Ack a delivery of the channel that is open now."""
        if self._intake is not None:
            self._intake.consuming.finish([tag])
            self._wake.set()

    @property
    def held(self) -> int:
        """How many messages are here, unacked."""
        return self._buffer.held(self)

    @property
    def oldest(self) -> int | None:
        """The smallest ``received_at`` of these, in ms; None for none."""
        return self._buffer.oldest(self)

    async def _run(self) -> None:
        while not self._is_closing:
            session = await self._connection.up()
            try:
                await self._read(session)
            except TransportError as error:
                self._note(error)
            if not self._is_closing:
                await self._clock.sleep(self._backoff.fail())

    async def _read(self, session: Session) -> None:
        """Read on one channel until it is lost.

        Raises
        ------
        TransportError
            It is gone, and why.
        """
        within = self._patience.answer
        async with Intake.opened(session, queue_of(self.lane), self._arrived, self._wake.set, within=within) as intake:
            self._intake = intake
            try:
                await intake.begin()
                await self._attend_to(intake)
            finally:
                # From here on nothing is acked on it, so that what is acked now comes again if it was not sent.
                self._intake = None
                self._buffer.lose(self)

    async def _attend_to(self, intake: Intake) -> None:
        """Do the pending work on the channel, whenever there is some."""
        while not intake.consuming.gone:
            self._wake.clear()
            await intake.consuming.flush()
            if self._is_closing:
                return
            await set_aside(intake.consuming, self._place, self._quarantine)
            await intake.consuming.flush()
            await self._answer(intake)
            within = self._patience.repair_every if intake.consuming.unreadable else None
            await first_of(self._wake.wait(), within=within)
        raise TransportUnavailable(localized("reading {place}: {gone}", place=self._place, gone=intake.consuming.gone))

    async def _answer(self, intake: Intake) -> None:
        """Answer all questions whether the queue is drained."""
        asked, self._asked = self._asked, []
        questions = intake.questions()
        if not asked and not questions:
            return
        is_drained = await self._is_drained(intake)
        for answer in asked:
            if not answer.done():
                answer.set_result(is_drained)
        for question in questions:
            await intake.answer(question, is_drained=is_drained)

    async def _is_drained(self, intake: Intake) -> bool:
        try:
            return await intake.is_drained()
        except TransportError as error:
            _log.info("%s", error)
            return False

    def _arrived(self, message: Message, tag: int, redelivered: bool) -> None:
        self._backoff.succeed()
        if self._trouble:
            _log.info("reading %s again", self._place)
            self._trouble = ""
        self._buffer.put(HeldDelivery(message, self, tag, suspect=redelivered))

    def _note(self, error: TransportError) -> None:
        if str(error) != self._trouble:
            _log.warning("%s; it is tried again for ever", error)
        self._trouble = str(error)


def _entries(incoming: Sequence[IncomingMessage]) -> list[HeldDelivery]:
    entries = [item.token for item in incoming]
    if not all(isinstance(entry, HeldDelivery) for entry in entries):
        raise TypeError("this delivery came by another transport")
    return [entry for entry in entries if isinstance(entry, HeldDelivery)]
