"""Merged lists of all clusters: topics, channels of one, nsqds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bus.domain.routing.answers import Unreadable, merge_lists, merge_nodes, opened
from lookup.cluster import Cluster, message_of
from lookup.nsqlookupd import LookupAnswer, LookupUnavailable

_log = logging.getLogger(__name__)
_OK: Final = 200
_MORE: Final = "meta_info"
Content = Mapping[str, Any]


class MergedList(NamedTuple):
    """One answer of all clusters.

    Attributes
    ----------
    content
        None when no cluster has answered well.
    refusal
        What one of them says of a question that all of them refuse.
    absent
        The names of those that gave no answer that can be read.
    """

    content: Content | None
    refusal: LookupAnswer | None
    absent: Sequence[str]


def _lists(name: str) -> Callable[[Sequence[Content]], Content]:
    def merged(found: Sequence[Content]) -> Content:
        more = [one[_MORE] for one in found if _MORE in one]
        if not all(isinstance(entries, list) for entries in more):
            raise Unreadable(f"{_MORE} is no list")
        plain = merge_lists(found, name)
        return {**plain, _MORE: [entry for entries in more for entry in entries]} if more else plain

    return merged


MERGED: Final[Mapping[str, Callable[[Sequence[Content]], Content]]] = {
    "/topics": _lists("topics"),
    "/channels": _lists("channels"),
    "/nodes": merge_nodes,
}


async def ask_all(clusters: Mapping[str, Cluster], path: str, target: str, via: str) -> MergedList:
    """Ask every cluster, and merge what can be read."""
    merge = MERGED[path]
    results = await asyncio.gather(*(_ask(cluster, target, via) for cluster in clusters.values()))
    good: list[Content] = []
    refusals: list[LookupAnswer] = []
    absent: list[str] = []
    for name, answers in zip(clusters, results, strict=True):
        contents = [content for one in answers if (content := _read(one, merge)) is not None]
        refused = [one for one in answers if one.status != _OK and _is_refusal(one)]
        good += contents
        refusals += refused
        if not contents and not refused:
            absent.append(name)
    return MergedList(merge(good) if good else None, refusals[0] if refusals else None, absent)


async def _ask(cluster: Cluster, target: str, via: str) -> list[LookupAnswer]:
    try:
        return await cluster.ask(target, via)
    except LookupUnavailable as error:
        _log.debug("cluster %s is left out of %s: %s", cluster.name, target, error)
        return []


def _is_refusal(answered: LookupAnswer) -> bool:
    try:
        return bool(message_of(answered))
    except Unreadable:
        return False


def _read(answered: LookupAnswer, merge: Callable[[Sequence[Content]], Content]) -> Content | None:
    """Return an answer that has the shape that it is merged by; None for any other."""
    try:
        content = opened(answered.content) if answered.status == _OK else None
        if content is not None:
            merge([content])
    except Unreadable as error:
        _log.warning("an nsqlookupd's list is left out: %s", error)
        return None
    return content
