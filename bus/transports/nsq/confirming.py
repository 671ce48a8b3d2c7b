"""The responses of an nsqd to commands that are sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bus.transports.nsq.connection import Connection
from bus.transports.nsq.errors import ConnectionLost, NsqFault


async def answers_of(connection: Connection, asked: Sequence[bytes], within: float) -> list[bytes | NsqFault]:
    """Send commands in order and return the answer to each, or what went wrong.

    What has no answer after so many seconds costs the connection, and may have taken effect all the same.
    """
    answers = [connection.ask(command) for command in asked]
    late = ConnectionLost(f"nsqd {connection.address} did not confirm within {within:g} s")
    try:
        _, pending = await asyncio.wait(answers, timeout=within)
        if pending:
            connection.give_up(late)
    finally:
        for answer in answers:
            answer.cancel()
    return [_result(answer, late) for answer in answers]


def _result(answer: asyncio.Future[bytes], late: NsqFault) -> bytes | NsqFault:
    if answer.cancelled():
        return late
    fault = answer.exception()
    if fault is None:
        return answer.result()
    return fault if isinstance(fault, NsqFault) else ConnectionLost(str(fault))
