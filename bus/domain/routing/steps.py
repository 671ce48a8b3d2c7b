"""The steps of a migration: the route that each puts in force, its conditions, the next step, and the rollback.

An unordered topic is consumed from both clusters before producers change over, and consumers leave a cluster only when
it is empty and has no writers. Of an ordered topic a message may be written to the second cluster only when no producer
can write to the first any more, and consumed there only when the first is empty; so producers stop for a while, and
consumers are with one cluster alone.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from bus.localized_text import N_


class Kind(enum.StrEnum):
    """Kind of a migration; an expansion moves the topic, raises its partitions, and moves it back."""

    UNORDERED = "unordered"
    ORDERED = "ordered"
    EXPANSION = "expansion"


class Step(enum.StrEnum):
    """Step of a migration."""

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
    """Condition of a cluster before a step is left.

    Attributes
    ----------
    PREPARED
        It has the topic with the partitions, the order and the channels of the other one.
    EMPTY
        Nothing waits in the topic, so that new messages are behind no old ones.
    CONSUMED
        Every channel that the other one's consumers have is consumed here.
    UNCONSUMED
        No consumers are here.
    UNWRITTEN
        Nothing was written for longer than the longest lookup interval, or twice as long while producers are connected.
    """

    PREPARED = "prepared"
    EMPTY = "empty"
    CONSUMED = "consumed"
    UNCONSUMED = "unconsumed"
    UNWRITTEN = "unwritten"


class Readers(enum.Enum):
    """Clusters that consumers are sent to.

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
        Cluster that producers are sent to; None to stop them.
    needs
        Conditions of the next step, in addition to the answer of every proxy.
    waits_interval
        Whether every client must have looked up since.
    then, back
        The next step, and the one that a rollback goes to; None where there is none.
    prepares
        Which cluster is given what it lacks meanwhile.
    risk
        Possible damage when a person continues without the evidence.
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
