"""Routing patterns of subscriptions: the rule of AMQP's topic exchanges.

Keys and patterns are words between dots; in a pattern ``*`` is exactly one word and ``#`` any number of them, none
included. An empty key has no words.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from bus.localized_text import localized

EVERY_KEY: Final = "#"
_PATTERN: Final = re.compile(r"(?:[A-Za-z0-9_-]+|\*|#)(?:\.(?:[A-Za-z0-9_-]+|\*|#))*")
_LONGEST: Final = 255
_ONE_WORD: Final = "*"
_ANY_WORDS: Final = "#"


def check_pattern(pattern: str) -> str:
    """Return a pattern that a subscription can have.

    Raises
    ------
    ValueError
        It is not words between dots, each ``*``, ``#`` or 1 or more of ``a-z A-Z 0-9 _ -``; or it is too long.
    """
    if len(pattern) > _LONGEST or not _PATTERN.fullmatch(pattern):
        raise ValueError(
            localized(
                "not up to {longest} characters of words between dots, a word being *, # or a-z A-Z 0-9 _ -",
                longest=_LONGEST,
            )
        )
    return pattern


def matches(pattern: str, key: str) -> bool:
    """Whether a message with the routing key goes to a subscription with the routing pattern."""
    if pattern == EVERY_KEY:
        return True
    return _takes(_words(pattern), key.split(".") if key else [])


def _takes(pattern: tuple[str, ...], key: list[str]) -> bool:
    """Try the shortest run of words for each ``#``, and lengthen the last one where the rest does not fit."""
    at = word = 0
    last_any, resume = -1, 0
    while word < len(key):
        if at < len(pattern) and pattern[at] == _ANY_WORDS:
            last_any, resume = at, word
            at += 1
        elif at < len(pattern) and pattern[at] in (_ONE_WORD, key[word]):
            at += 1
            word += 1
        elif last_any >= 0:
            resume += 1
            at, word = last_any + 1, resume
        else:
            return False
    return all(rest == _ANY_WORDS for rest in pattern[at:])


@lru_cache(maxsize=4096)
def _words(pattern: str) -> tuple[str, ...]:
    return tuple(pattern.split(".")) if pattern else ()
