"""Direct send for event loops; a separate module, since a `Bus` for threads imports nothing of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bus.client.network.direct_send import DirectSend
from bus.client.options import PreparedMessage
from bus.errors import SpoolError


async def sent_straight(
    straight: DirectSend, messages: Sequence[PreparedMessage], refusal: SpoolError
) -> list[SpoolError | None]:
    """Return for each message, within ``fallback_timeout`` seconds, None once the receiver has it, else why not."""
    verdicts = [straight.submit(prepared, refusal) for prepared in messages]
    waiting = [asyncio.wrap_future(verdict) for verdict in verdicts]
    done, _ = await asyncio.wait(waiting, timeout=straight.seconds)
    problems = [
        future.result() if future in done else straight.give_up(verdict)
        for verdict, future in zip(verdicts, waiting, strict=True)
    ]
    return [straight.failure(refusal, problem) if problem else None for problem in problems]
