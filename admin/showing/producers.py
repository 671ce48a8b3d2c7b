"""Producers, merged from the reports of all receivers and sweepers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import msgspec

from admin.models.base import optional_time
from admin.models.responses.producers import ProducersView, ProducerView, RefusedView, TurnedAwayView, UnheardView
from bus.cluster.member import host_of
from bus.cluster.report import Answer
from bus.domain.health.rules.producers import MAKE_ROOM, SEND_AGAIN
from bus.domain.health.vitals import ProducerFigures, RejectedFigures, TurnedAwayFigures
from bus.domain.times import format_time
from bus.localized_text import localized, localized_text_of

# What is known of a producer, and by which process.
_Heard = tuple[ProducerFigures, str]
_ROLE: Final = "receiver"
_Refusal = TypeVar("_Refusal", RefusedView, TurnedAwayView)
_SDK: Final = re.compile(r"pier-[a-z]+/([^ ]+) \(host ([^;)]*)")


def producers_view(answers: Sequence[Answer], *, source: str | None, limit: int, now: int) -> ProducersView:
    """Return the producers that processes report: those with the oldest queued message first, then the last seen.

    ``now`` is in milliseconds since the epoch.
    """
    found = [one for one in _merged(answers, now) if source in (None, one.source)]
    told = [(answer.member.node, answer.report.member) for answer in answers if answer.report is not None]
    return ProducersView(
        items=found[:limit],
        left_out=max(0, len(found) - limit),
        refused=_latest(_refused(node, one) for node, member in told for one in member.rejected),
        turned_away=_latest(_turned_away(node, one) for node, member in told for one in member.turned_away),
        unheard=[
            UnheardView(
                node=answer.member.node, trouble=str(answer.trouble), trouble_text=localized_text_of(answer.trouble)
            )
            for answer in answers
            if answer.report is None and _ROLE in answer.member.roles
        ],
    )


def _merged(answers: Iterable[Answer], now: int) -> list[ProducerView]:
    """Return each producer once: its newest report, and the sum of its messages."""
    heard: dict[tuple[str, ...], _Heard] = {}
    seen: list[_Heard] = []
    for answer in answers:
        if answer.report is None:
            continue
        node = answer.member.node
        seen += [(one, host_of(node)) for one in answer.report.member.producers if one.path]
        for one in answer.report.producers:
            name = (one.key, one.source, one.id or one.agent)
            heard[name] = _newer(heard.get(name), (one, node))
    known = {one.id: one for one, _ in heard.values() if one.id}
    # A sweeper sees the queue itself, and later than the last report of its producer.
    paths = {one.id: one for one, _ in seen}
    views = [_view(one, node, paths.get(one.id), now) for one, node in heard.values()]
    views += [_view(one, node, one, now) for one, node in seen if one.id not in known]
    return sorted(views, key=lambda one: (one.oldest or "~", _reversed(one.last_seen)))


def _newer(known: _Heard | None, other: _Heard) -> _Heard:
    if known is None:
        return other
    last, node = max(known, other, key=lambda one: one[0].seen_at)
    return msgspec.structs.replace(last, messages=known[0].messages + other[0].messages), node


def _reversed(time: str | None) -> tuple[int, ...]:
    """Return a sort key with the last time first."""
    return tuple(-ord(letter) for letter in time or "")


def _view(one: ProducerFigures, node: str, seen: ProducerFigures | None, now: int) -> ProducerView:
    queue = seen or one
    told_at = one.seen_at if seen is None else now
    sdk = _SDK.match(one.agent)
    return ProducerView(
        source=one.source,
        agent=one.agent,
        version=sdk[1] if sdk is not None else "",
        host=sdk[2] if sdk is not None else "",
        key=one.key or None,
        queue=one.id or None,
        records=queue.records if one.id else None,
        oldest=format_time(told_at - queue.oldest) if one.id and queue.records else None,
        last_seen=optional_time(one.seen_at),
        messages=one.messages,
        node=node,
        path=seen.path if seen is not None else None,
    )


def _latest(found: Iterable[_Refusal]) -> list[_Refusal]:
    return sorted(found, key=lambda one: one.last or "", reverse=True)


def _refused(node: str, one: RejectedFigures) -> RefusedView:
    return RefusedView(
        source=one.source,
        destination=one.destination,
        count=one.count,
        status=one.status,
        reason=one.reason,
        since=format_time(one.since),
        last=optional_time(one.last),
        example=one.example or None,
        node=node,
        next_step=str(SEND_AGAIN),
        next_step_text=SEND_AGAIN,
    )


def _turned_away(node: str, one: TurnedAwayFigures) -> TurnedAwayView:
    step = localized(MAKE_ROOM[one.why])
    return TurnedAwayView(
        whose=one.whose,
        why=one.why,
        destination=one.destination,
        count=one.count,
        since=format_time(one.since),
        last=optional_time(one.last),
        node=node,
        next_step=str(step),
        next_step_text=localized_text_of(step),
    )
