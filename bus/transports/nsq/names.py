"""Names of destinations and subscriptions in NSQ: unchanged where NSQ allows it."""

from __future__ import annotations

import re
from typing import Final

from bus.errors import InvalidDestination, TransportRefused
from bus.localized_text import localized

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
            localized(
                "NSQ cannot name a topic {destination}: it allows 1-{longest} of a-z A-Z 0-9 . _ -",
                destination=repr(destination[:140]),
                longest=LONGEST,
            ),
            hint=localized("take a shorter code, or another transport"),
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
            localized(
                "NSQ cannot name a channel {subscription}: it allows 1-{longest} of a-z A-Z 0-9 . _ -",
                subscription=repr(subscription[:140]),
                longest=LONGEST,
            ),
            hint=localized("name the subscription anew"),
        )
    return subscription
