"""Names of topics by destination and of groups by subscription, and back.

Kafka takes ``a.b`` and ``a_b`` for the same metric, so it forbids topics that differ only in that; an escape with ``-``
keeps the underscore out: ``-`` becomes ``--`` and ``_`` becomes ``-u``.
"""

from __future__ import annotations

import re
from typing import Final

from bus.errors import InvalidDestination
from bus.localized_text import localized

LONGEST_TOPIC: Final = 249
_ESCAPE: Final = re.compile(r"-([-u])")
_ESCAPED: Final = {"-": "-", "u": "_"}
_GROUPS: Final = "pier/"


def topic_of(code: str, prefix: str = "") -> str:
    """Return the topic that carries a destination."""
    return prefix + code.replace("-", "--").replace("_", "-u")


def code_of(topic: str, prefix: str = "") -> str | None:
    """Undo ``topic_of``; None for a topic that carries no destination of ours."""
    if not topic.startswith(prefix):
        return None
    code = _ESCAPE.sub(lambda found: _ESCAPED[found[1]], topic.removeprefix(prefix))
    return code if topic_of(code, prefix) == topic else None


def check_code(code: str, prefix: str = "") -> str:
    """Return the topic of a destination that Kafka can name.

    Raises
    ------
    InvalidDestination
        Its topic's name would be too long.
    """
    topic = topic_of(code, prefix)
    if len(topic) > LONGEST_TOPIC:
        raise InvalidDestination(
            localized(
                "destination {code} needs a Kafka topic of {length} characters, and Kafka takes {longest}",
                code=repr(code),
                length=len(topic),
                longest=LONGEST_TOPIC,
            ),
            hint=localized("each - and _ counts twice; take a shorter code, or one with fewer of them"),
            field="code",
        )
    return topic


def group_of(topic: str, subscription: str) -> str:
    """Return the consumer group that reads a topic for a subscription."""
    return f"{_GROUPS}{topic}/{subscription}"
