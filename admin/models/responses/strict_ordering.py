"""Strictly ordered destinations: their chains of broker groups, and what people decide about them."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.localized_text import LocalizedText


class HolderView(View, kw_only=True):
    """Who alone sends, reads or produces; ``owner`` and ``node`` for those who may see the whole bus.

    ``alive`` is null for a producer, which is no process of the bus.
    """

    owner: str | None
    node: str | None
    url: str
    epoch: int
    alive: bool | None


class SegmentWaitingView(View, kw_only=True):
    """What waits in a segment for a subscription that has not drained it; null where nobody can say."""

    subscription: str
    waiting: int | None


class SegmentView(View, kw_only=True):
    """What a group took while it was the head of the send chain; ``current`` takes messages now.

    ``since`` is when it became the head, null where an earlier version did not say; ``lost`` is whether the group lost
    its disks with it.
    """

    group: str
    epoch: int
    since: str | None
    current: bool
    lost: bool
    drained: list[str]
    waiting: list[SegmentWaitingView]


class GapView(View, kw_only=True):
    """What a group had taken, or lost, and a person removed from the chain before all had read it."""

    group: str
    epoch: int
    drained: list[str]


class GroupView(View, kw_only=True):
    """A group of brokers, as the process that answers knows it; null for what it does not know.

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
    """What blocks, and what to do."""

    what: str
    what_text: LocalizedText | None
    next_step: str
    next_step_text: LocalizedText | None


class StrictOrderView(View, kw_only=True):
    """A strictly ordered destination: who works on it, what takes messages, what is to be read, what blocks.

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
    """A group that nobody waits for any more, or would not after a dry run, and what that costs.

    ``count`` is the sum of what is known to wait; null while some of it is not known.
    """

    group: str
    epoch: int
    dry_run: bool
    waiting: list[SegmentWaitingView]
    count: int | None
    costs: list[CostView]


class ReleasedProducerView(View, kw_only=True):
    """A producer that does not send alone any more, or would not after a dry run, and what that costs."""

    producer: HolderView
    dry_run: bool
    costs: list[CostView]
