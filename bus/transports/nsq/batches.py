"""Batches of messages for one publication, and messages that are too large for any."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from bus.transports.nsq.protocol.commands import MPUB_OVERHEAD, SIZE_OVERHEAD
from bus.transports.nsq.protocol.http import Limits

_log = logging.getLogger(__name__)


def split(sizes: Mapping[int, int], limits: Limits) -> list[list[int]]:
    """Return which messages go together into one MPUB, in order; those over the limit of one are left out.

    Parameters
    ----------
    sizes
        Bytes of each message.
    """
    parts: list[list[int]] = []
    room = 0
    for index, size in sizes.items():
        if size > limits.message or size + SIZE_OVERHEAD + MPUB_OVERHEAD > limits.body:
            continue
        if size + SIZE_OVERHEAD > room:
            parts.append([])
            room = limits.body - MPUB_OVERHEAD
        parts[-1].append(index)
        room -= size + SIZE_OVERHEAD
    return parts


def tell_too_large(topic: str, ids: Mapping[int, str], sizes: Mapping[int, int], limits: Limits) -> None:
    """Log the messages that are too large for an nsqd, and what to do."""
    for index, size in sizes.items():
        if limits.message and size > limits.message:
            _log.warning(
                "message %s for %s is larger than nsqd takes, %d > %d bytes; start nsqd with a larger --max-msg-size",
                *(ids[index], topic, size, limits.message),
            )
