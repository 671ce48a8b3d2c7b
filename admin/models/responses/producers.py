"""Producers, and what of theirs is refused."""

from __future__ import annotations

from admin.models.responses.base import View
from bus.localized_text import LocalizedText


class ProducerView(View, kw_only=True):
    """A producer, as receivers have seen it, or as a sweeper sees its queue.

    ``agent`` is its ``User-Agent``; ``version`` and ``host`` are taken from that if it is an SDK of the bus. ``queue``
    is null for a producer that reports none; then ``records`` is null too. ``oldest`` is since when the first of them
    waits. ``last_seen`` and ``key`` are null where only a sweeper sees it, on ``node``, at ``path``. ``messages`` are
    those since the start of the receivers that have seen it.
    """

    source: str
    agent: str
    version: str
    host: str
    key: str | None
    queue: str | None
    records: int | None
    oldest: str | None
    last_seen: str | None
    messages: int
    node: str
    path: str | None


class RefusedView(View, kw_only=True):
    """Messages of a source to a destination that were rejected permanently within a day, and what to do.

    ``status`` and ``reason`` are those of the last, ``example`` is its id or its biz id; null where it had neither.
    """

    source: str
    destination: str
    count: int
    status: int
    reason: str
    since: str
    last: str | None
    example: str | None
    node: str
    next_step: str
    next_step_text: LocalizedText | None


class TurnedAwayView(View, kw_only=True):
    """Messages that are refused for now, since the rate or share of ``whose`` (a destination, or a key) is used up.

    ``why`` is spool_share, rate or key_rate; the last of them was for ``destination``.
    """

    whose: str
    why: str
    destination: str
    count: int
    since: str
    last: str | None
    node: str
    next_step: str
    next_step_text: LocalizedText | None


class UnheardView(View, kw_only=True):
    """A receiver that does not answer; producers that only it has seen are missing."""

    node: str
    trouble: str
    trouble_text: LocalizedText | None


class ProducersView(View, kw_only=True):
    """The producers that receivers have seen, of which ``left_out`` are not listed."""

    items: list[ProducerView]
    left_out: int
    refused: list[RefusedView]
    turned_away: list[TurnedAwayView]
    unheard: list[UnheardView]
