"""The signature of failures: the reason of a delivery without its variable parts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from bus.domain.delivery.delivery import Status
from bus.domain.delivery.intervention import BY_A_PERSON, SET_ASIDE, Intervention

FAILING: Final = frozenset({Status.RETRYING, Status.PARKED, Status.DEAD})
"""States of a delivery that has a signature."""
UNKNOWN: Final = "no reason"
MOST_CHARACTERS: Final = 200
_EXHAUSTED: Final = re.compile(r"; (?:retries exhausted after \d+|not tried again, as the subscription says)$")
_STATUS: Final = re.compile(r"HTTP \d{3}")
# In this order: what comes first has the others inside.
_VARYING: Final = (
    (re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[^\s'\"<>]+"), "<url>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b\d\d:\d\d:\d\d(?:\.\d+)?\b"), "<time>"),
    (re.compile(r"\[?(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F]{1,4}(?!\w|:\w)\]?(?::\d+\b)?"), "<address>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"), "<address>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}\b"), "<id>"),
    (re.compile(r"\d+(?:\.\d+)?"), "<n>"),
)


def has_variable(signature: str) -> bool:
    """Whether a signature stands for errors with different numbers, ids, times, addresses or URLs."""
    return any(name in signature for _, name in _VARYING)


def error_of(reason: str) -> str:
    """Return the error of a reason, without the number of retries."""
    return _EXHAUSTED.sub("", reason[: 10 * MOST_CHARACTERS])


@lru_cache(maxsize=4096)
def signature_of(reason: str) -> str:
    """Return the text that a failure has in common with others of its kind.

    ``HTTP 503`` stays as it is, for any number of retries; deliveries set aside by people have that in common. In other
    text numbers, ids, times, addresses and URLs are replaced by their kind, and it is cut to ``MOST_CHARACTERS``
    characters.
    """
    text = error_of(reason)
    if _STATUS.fullmatch(text):
        return text
    intervention = Intervention.parse(text)
    if intervention is not None and intervention.what == SET_ASIDE:
        return BY_A_PERSON
    for varying, name in _VARYING:
        text = varying.sub(name, text)
    return " ".join(text.split())[:MOST_CHARACTERS] or UNKNOWN
