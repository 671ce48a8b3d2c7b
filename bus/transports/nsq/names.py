"""How destinations and subscriptions are called in NSQ: as they are, when NSQ allows it."""

from __future__ import annotations

import re
from typing import Final

from bus.errors import InvalidDestination, TransportRefused

LONGEST: Final = 64
_ALLOWED: Final = re.compile(rf"[.a-zA-Z0-9_-]{{1,{LONGEST}}}")


def topic_of(destination: str) -> str:
    """Return the topic of a destination.

    Raises
    ------
    InvalidDestination
        NSQ cannot name it so.
    """
    if not _ALLOWED.fullmatch(destination):
        raise InvalidDestination(
            f"NSQ cannot name a topic {destination[:140]!r}: it allows 1-{LONGEST} of a-z A-Z 0-9 . _ -",
            hint="take a shorter code, or another transport",
            field="code",
        )
    return destination


def channel_of(subscription: str) -> str:
    """Return the channel of a subscription.

    Raises
    ------
    TransportRefused
        NSQ cannot name it so.
    """
    if not _ALLOWED.fullmatch(subscription):
        raise TransportRefused(
            f"NSQ cannot name a channel {subscription[:140]!r}: it allows 1-{LONGEST} of a-z A-Z 0-9 . _ -",
            hint="name the subscription anew",
        )
    return subscription
