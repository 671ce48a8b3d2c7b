"""Responses about strictly ordered destinations: their chains of broker groups, and decisions about them."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.localized_text import LocalizedText


class HolderView(View, kw_only=True):
    """The only sender, reader or producer; ``owner`` and ``node`` only for callers who may see the whole bus.

    ``alive`` is null for a producer, which is no process of the bus.
    """

    owner: str | None
    node: str | None
    url: str
    epoch: int
    alive: bool | None


class SegmentWaitingView(View, kw_only=True):
    """The messages of a segment that wait for a subscription that has not drained it; null where that is unknown."""

    subscription: str
    waiting: int | None


class SegmentView(View, kw_only=True):
    """The messages that a group took as the head of the send chain; a ``current`` segment takes messages now.

    ``since`` is when it became the head, null where an earlier version did not store it; ``lost`` is whether the group
    lost its disks with it.
    """

    group: str
    epoch: int
    since: str | None
    current: bool
    lost: bool
    drained: list[str]
    waiting: list[SegmentWaitingView]


class GapView(View, kw_only=True):
    """Messages that a group took or lost, and that a person removed from the chain before all had read them."""

    group: str
    epoch: int
    drained: list[str]


class GroupView(View, kw_only=True):
    """A group of brokers, as the process that answers sees it; null for all that is unknown to it.

    ``behind`` is whether the group lacks a queue that the destination needs.
    """

    name: str
    configured: bool
    answers: bool | None
    empty: bool | None
    behind: bool
    trouble: str
    trouble_text: LocalizedText | None


class ObstacleView(View, kw_only=True):
    """An obstacle that blocks messages, and what to do."""

    what: str
    what_text: LocalizedText | None
    next_step: str
    next_step_text: LocalizedText | None


class StrictOrderView(View, kw_only=True):
    """A strictly ordered destination: its roles, the groups to send to and to read from, and its obstacles.

    ``known`` is false while the coordinator does not give the chain; then ``groups`` and ``blocked`` are all there is.
    """

    destination: str
    known: bool
    epoch: int
    sender: HolderView | None
    reader: HolderView | None
    producer: HolderView | None
    send: list[str]
    consume: list[SegmentView]
    gaps: list[GapView]
    groups: list[GroupView]
    blocked: list[ObstacleView]


class CostView(View, kw_only=True):
    """One consequence of a decision."""

    what: str
    what_text: LocalizedText | None


class AbandonedView(View, kw_only=True):
    """A group that is abandoned, or would be after a dry run, and the cost of that.

    ``count`` is the number of messages that are known to wait; null while a part of it is unknown.
    """

    group: str
    epoch: int
    dry_run: bool
    waiting: list[SegmentWaitingView]
    count: int | None
    costs: list[CostView]


class ReleasedProducerView(View, kw_only=True):
    """A producer whose exclusive sending ended, or would end after a dry run, and the cost of that."""

    producer: HolderView
    dry_run: bool
    costs: list[CostView]
