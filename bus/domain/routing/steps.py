"""The steps of a migration: what route each puts in force, what it waits for, what follows, and how one goes back.

An unordered topic is consumed from both clusters before producers change over, and consumers leave a cluster only when
it is empty and nobody writes to it. Of an ordered topic a message may be written to the second cluster only when nobody
can write to the first any more, and consumed there only when the first is empty; so producers stop for a while, and
consumers are with one cluster alone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from bus.localized_text import N_


class Kind(enum.StrEnum):
    """How a topic is moved; an expansion moves it away, raises its partitions, and moves it back."""

    UNORDERED = "unordered"
    ORDERED = "ordered"
    EXPANSION = "expansion"


class Step(enum.StrEnum):
    """Where a migration is."""

    PREPARE = "prepare"
    CONSUMERS_ON_BOTH = "consumers-on-both"
    PRODUCERS_ON_TARGET = "producers-on-target"
    PRODUCERS_STOPPED = "producers-stopped"
    DRAINING_SOURCE = "draining-source"
    EXPANDING_SOURCE = "expanding-source"
    STOPPED_TO_RETURN = "producers-stopped-to-return"
    DRAINING_TARGET = "draining-target"
    DONE = "done"
    PRODUCERS_BACK = "rollback-producers-on-source"
    BACK_STOPPED = "rollback-producers-stopped"
    BACK_DRAINING = "rollback-draining-target"
    CANCELED = "canceled"


ENDED: Final = frozenset({Step.DONE, Step.CANCELED})


class Side(enum.StrEnum):
    """One of the two clusters."""

    SOURCE = "source"
    TARGET = "target"

    @property
    def other(self) -> Side:
        """The other one."""
        return Side.TARGET if self is Side.SOURCE else Side.SOURCE


class Need(enum.Enum):
    """What must be seen of a cluster before a step is left.

    Attributes
    ----------
    PREPARED
        It has the topic with the partitions, the order and the channels of the other one.
    EMPTY
        Nothing waits in the topic, so that what comes is behind nothing of before.
    CONSUMED
        Every channel that the other one's consumers have is consumed here.
    UNCONSUMED
        Nobody consumes here.
    UNWRITTEN
        Nobody has written for longer than the longest lookup interval, or twice as long while producers are connected.
    """

    PREPARED = "prepared"
    EMPTY = "empty"
    CONSUMED = "consumed"
    UNCONSUMED = "unconsumed"
    UNWRITTEN = "unwritten"


class Readers(enum.Enum):
    """Where consumers are sent.

    Of both clusters the one to be emptied comes first, for a client of the fork finds all partitions of the first one
    alone, and of others an nsqd's own.
    """

    BEFORE = "before"
    SOURCE = "source"
    TARGET = "target"
    BOTH = "both"
    BOTH_BACK = "both, on the way back"


class Rule(NamedTuple):
    """One step.

    Attributes
    ----------
    writers
        Where producers are sent; None to stop them.
    needs
        What is waited for; and always that every proxy answers so.
    waits_interval
        Whether every client must have looked up since.
    then, back
        What follows, and what a rollback goes to; None where nothing does.
    prepares
        Which cluster is given what it lacks meanwhile.
    risk
        What may happen when a person goes on without the evidence.
    """

    writers: Side | None
    readers: Readers
    needs: tuple[tuple[Need, Side], ...] = ()
    waits_interval: bool = False
    then: Step | None = None
    back: Step | None = None
    prepares: Side | None = None
    risk: str = ""


_S, _T = Side.SOURCE, Side.TARGET
_UNPREPARED: Final = N_("the target may refuse messages, or lose those for channels that it does not have")
_BACKLOG: Final = N_("messages wait on the target until consumers come to it")
_LEFT: Final = N_("what is left in, or still written to, the cluster that consumers leave is not delivered")
_INVERTED: Final = N_("messages of a key may be delivered out of order")
_HALF: Final = N_("the source has fewer partitions than wanted, or partitions without channels that lose messages")

_PREPARE: Final = Rule(
    _S,
    Readers.BEFORE,
    needs=((Need.PREPARED, _T),),
    back=Step.CANCELED,
    prepares=_T,
    risk=_UNPREPARED,
)
_END: Final = {
    Step.DONE: Rule(_T, Readers.TARGET),
    Step.CANCELED: Rule(_S, Readers.BEFORE),
}
_UNORDERED: Final = {
    Step.PREPARE: _PREPARE._replace(then=Step.CONSUMERS_ON_BOTH),
    Step.CONSUMERS_ON_BOTH: Rule(
        _S,
        Readers.BOTH,
        needs=((Need.PREPARED, _T), (Need.CONSUMED, _T)),
        waits_interval=True,
        then=Step.PRODUCERS_ON_TARGET,
        back=Step.CANCELED,
        prepares=_T,
        risk=_BACKLOG,
    ),
    Step.PRODUCERS_ON_TARGET: Rule(
        _T,
        Readers.BOTH,
        needs=((Need.UNWRITTEN, _S), (Need.EMPTY, _S)),
        waits_interval=True,
        then=Step.DONE,
        back=Step.PRODUCERS_BACK,
        prepares=_T,
        risk=_LEFT,
    ),
    Step.PRODUCERS_BACK: Rule(
        _S,
        Readers.BOTH_BACK,
        needs=((Need.UNWRITTEN, _T), (Need.EMPTY, _T)),
        waits_interval=True,
        then=Step.CANCELED,
        risk=_LEFT,
    ),
    **_END,
}
_ORDERED: Final = {
    Step.PREPARE: _PREPARE._replace(
        needs=((Need.PREPARED, _T), (Need.EMPTY, _T)), then=Step.PRODUCERS_STOPPED, risk=_INVERTED
    ),
    Step.PRODUCERS_STOPPED: Rule(
        None,
        Readers.SOURCE,
        needs=((Need.PREPARED, _T), (Need.UNWRITTEN, _S), (Need.UNCONSUMED, _T)),
        waits_interval=True,
        then=Step.DRAINING_SOURCE,
        back=Step.CANCELED,
        prepares=_T,
        risk=_INVERTED,
    ),
    Step.DRAINING_SOURCE: Rule(
        _T,
        Readers.SOURCE,
        needs=((Need.UNWRITTEN, _S), (Need.EMPTY, _S)),
        then=Step.DONE,
        back=Step.BACK_STOPPED,
        prepares=_T,
        risk=_INVERTED,
    ),
    Step.BACK_STOPPED: Rule(
        None,
        Readers.SOURCE,
        needs=((Need.UNWRITTEN, _T), (Need.EMPTY, _S)),
        waits_interval=True,
        then=Step.BACK_DRAINING,
        risk=_INVERTED,
    ),
    Step.BACK_DRAINING: Rule(
        None,
        Readers.TARGET,
        needs=((Need.UNWRITTEN, _T), (Need.EMPTY, _T)),
        then=Step.CANCELED,
        risk=_INVERTED,
    ),
    **_END,
}
_EXPANSION: Final = {
    **_ORDERED,
    Step.DRAINING_SOURCE: _ORDERED[Step.DRAINING_SOURCE]._replace(then=Step.EXPANDING_SOURCE),
    Step.EXPANDING_SOURCE: Rule(
        _T,
        Readers.TARGET,
        needs=((Need.PREPARED, _S),),
        then=Step.STOPPED_TO_RETURN,
        prepares=_S,
        risk=_HALF,
    ),
    Step.STOPPED_TO_RETURN: Rule(
        None,
        Readers.TARGET,
        needs=((Need.PREPARED, _S), (Need.UNWRITTEN, _T), (Need.UNCONSUMED, _S)),
        waits_interval=True,
        then=Step.DRAINING_TARGET,
        prepares=_S,
        risk=_INVERTED,
    ),
    Step.DRAINING_TARGET: Rule(
        _S,
        Readers.TARGET,
        needs=((Need.UNWRITTEN, _T), (Need.EMPTY, _T)),
        then=Step.DONE,
        prepares=_S,
        risk=_INVERTED,
    ),
    Step.DONE: Rule(_S, Readers.BEFORE),
}
RULES: Final[Mapping[Kind, Mapping[Step, Rule]]] = {
    Kind.UNORDERED: _UNORDERED,
    Kind.ORDERED: _ORDERED,
    Kind.EXPANSION: _EXPANSION,
}
