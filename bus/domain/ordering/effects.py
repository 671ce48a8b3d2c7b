"""Effects of the rules of a chain: a procedure yields one of these and is sent its result.

So that the same procedures run over real brokers and in a simulation that fails at every step.
"""

from __future__ import annotations

import enum
from collections.abc import Generator
from typing import Any, NamedTuple, TypeAlias, TypeVar

from bus.domain.message import Message
from bus.domain.ordering.chain import Chain


class KnownChain(NamedTuple):
    """A chain as the coordinator has it; of one that it lacks, ``version`` is 0."""

    chain: Chain
    version: int


class Refusal(enum.Enum):
    """Reason why a coordinator did not do something."""

    CONFLICT = "another process wrote first"
    UNKNOWN = "it did not answer: it may have been done"


class ReadChain(NamedTuple):
    """Read the chain: ``KnownChain``, or ``UNKNOWN``."""


class PutChain(NamedTuple):
    """Write the chain if it still has this version: the new version, or why not."""

    chain: Chain
    version: int


class CheckGroup(NamedTuple):
    """Ask how a group stands: its ``GroupStatus``."""

    group: str


class OpenWriter(NamedTuple):
    """Open a writer on a group, which shuts those before it out where the group can: whether that worked."""

    group: str


class WriteMessages(NamedTuple):
    """Write messages with an epoch by the writer that was opened: how many, from the first, are held for sure."""

    group: str
    epoch: int
    messages: tuple[Message, ...]


class IsDrained(NamedTuple):
    """Ask whether a group has nothing left for a subscription: True or False."""

    group: str
    subscription: str


class Mark(NamedTuple):
    """Mark the data of a group: the mark, empty when that did not work. ``known`` is one that it has, or empty."""

    group: str
    known: str


class HasMark(NamedTuple):
    """Ask whether a group's data still has a mark: True, or False when it is certainly lost, or None."""

    group: str
    mark: str


Effect: TypeAlias = ReadChain | PutChain | CheckGroup | OpenWriter | WriteMessages | IsDrained | Mark | HasMark
Answer = TypeVar("Answer")
Procedure: TypeAlias = Generator[Effect, Any, Answer]
