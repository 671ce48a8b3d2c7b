"""The status of a group: whether all copies are there, and whether all queues are empty."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence

from aiormq.abc import DeliveredMessage

from bus.errors import TransportError
from bus.localized_text import localized
from bus.ports.broker_group import AWAY, GroupStatus
from bus.transports.rabbitmq.errors import answering
from bus.transports.rabbitmq.names import Lane
from bus.transports.rabbitmq.session import Channel, Session
from bus.transports.rabbitmq.strict.intake import DRAINED, PREFETCH, Intake
from bus.transports.rabbitmq.strict.marks import Mark
from bus.transports.rabbitmq.strict.names import own_queue, queue_of
from bus.transports.rabbitmq.strict.nodes import Nodes
from bus.transports.rabbitmq.strict.topology import StrictTopology

_log = logging.getLogger(__name__)


class Survey:
    """Determines the status by AMQP alone, which does not report copies.

    A node starts its copies before it accepts connections, so those on nodes that answer and are connected to each
    other are taken for being up, and a leader that reports many messages or a consumer has a majority behind it. A
    queue with few messages, which may all be marks, or with none, as RabbitMQ says as well when no leader answers, is
    read by the survey itself, on one node after the other. A node does not deliver what its own copy has not applied.
    So a mark that comes through each of them was in every copy, and nothing before it in any. For a queue with a
    reader, the reader's answer counts.

    Parameters
    ----------
    group
        Its name, for errors.
    within
        Deadline of each call in seconds; all together have three times as long.
    """

    def __init__(self, group: str, nodes: Nodes, topology: StrictTopology, *, within: float) -> None:
        self._group = group
        self._nodes = nodes
        self._topology = topology
        self._within = within

    async def standing(self, lanes: Sequence[Lane]) -> GroupStatus:
        """Ask all nodes and queues now; a node that does not answer in time counts as unreachable."""
        try:
            with answering(localized("asking how {name} stands", name=self._group)):
                async with asyncio.timeout(3 * self._within):
                    sessions = await self._nodes.ask()
                    are_empty = [await self._is_empty(sessions, lane) for lane in lanes]
        except TransportError as error:
            _log.info("%s", error)
            return AWAY
        return GroupStatus(is_whole=True, is_empty=all(are_empty))

    async def _is_empty(self, sessions: Sequence[Session], lane: Lane) -> bool:
        """Whether a queue holds nothing, unacked neither; raises ``TransportError`` when a copy does not answer."""
        depth = await self._topology.depth(sessions[0], lane)
        if depth.consumers:
            return not depth.ready and await self._reader_says(sessions[0], lane)
        if depth.ready > PREFETCH:
            return False
        for session in sessions:
            async with Intake.opened(session, queue_of(lane), within=self._within) as intake:
                await intake.begin()
                if not await intake.is_drained():
                    return False
        return True

    async def _reader_says(self, session: Session, lane: Lane) -> bool:
        """Ask the reader of a queue; no answer is a no."""
        channel = await session.channel(within=self._within, confirms=True)
        try:
            doing = localized("asking the reader of {queue}", queue=queue_of(lane))
            return await session.call(doing, self._answer(channel, queue_of(lane)), within=self._within)
        except TransportError as error:
            _log.info("%s", error)
            return False
        finally:
            await channel.close()

    async def _answer(self, channel: Channel, queue: str) -> bool:
        answer = asyncio.get_running_loop().create_future()

        async def take(delivered: DeliveredMessage) -> None:
            if not answer.done():
                answer.set_result(delivered.body == DRAINED)

        # No direct reply-to: a reply to a node that is gone has RabbitMQ 3.10 close the connection of who replies.
        replies = own_queue()
        await channel.raw.queue_declare(queue=replies, exclusive=True, auto_delete=True)
        await channel.raw.basic_consume(replies, take, no_ack=True)
        question = Mark(uuid.uuid4().hex, replies).properties()
        await channel.raw.basic_publish(b"", routing_key=queue, properties=question, mandatory=True, wait=False)
        return bool(await answer)
