"""Responses about NSQ topics that move between clusters, as lookup proxies report them."""

from __future__ import annotations

import msgspec

from admin.models.responses.base import View
from bus.localized_text import LocalizedText


class TakenView(View, kw_only=True):
    """A step that was taken; ``by`` is empty where there was the evidence for it."""

    step: str
    at: str
    by: str


class ClusterSeenView(View, kw_only=True):
    """The topic in one cluster: its depth, its clients, and the seconds since the last write; null: unknown."""

    cluster: str
    exists: bool
    partitions: int | None
    depth: int
    in_flight: int
    deferred: int
    written: int
    producers: int | None
    consumers: int
    channels: list[str]
    unwritten_for: float | None
    empty_for: float | None
    unknown: list[str]


class EvidenceView(View, kw_only=True):
    """The last observation of the proxy that answers."""

    source: ClusterSeenView
    target: ClusterSeenView
    in_force_for: float | None


class MigrationView(View, kw_only=True):
    """One migration: its step and since when, the evidence that it waits for, and the state of both clusters.

    ``steps`` are those of the way there, ``history`` those that were taken. ``producers_stopped_ms`` is for how long
    producers were, or are, stopped. ``in_file`` says that the configuration of every proxy gives its last route.
    """

    id: str
    topic: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    kind: str
    partitions: int | None
    interval: float
    step: str
    since: str
    next: str | None
    paused: bool
    ended: bool
    in_file: bool
    by: str
    began_at: str
    produce: list[str]
    consume: list[str]
    steps: list[str]
    waits: list[str]
    waits_text: list[LocalizedText | None]
    trouble: str
    risk: str
    can_roll_back: bool
    producers_stopped: bool
    producers_stopped_ms: int
    evidence: EvidenceView | None
    history: list[TakenView]
