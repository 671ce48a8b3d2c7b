"""Responses of nsqlookupds to a lookup, in both dialects, and the merge of those of several clusters.

Stock NSQ answers ``channels`` and ``producers``; Youzan's fork adds ``partitions`` and ``meta``, and wraps all of it
for who does not accept version 1.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

Peer = Mapping[str, Any]
"""An nsqd as an nsqlookupd returns it; fields unknown to this version are passed on unchanged."""

_OK: Final = 200
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_SHAPE: Final = frozenset({"channels", "producers", "partitions"})
_MOST_PEERS: Final = 10_000


class Unreadable(ValueError):
    """An answer that no nsqlookupd gives."""


class Answer(msgspec.Struct, frozen=True):
    """Answer of one cluster for a topic.

    Attributes
    ----------
    partitions, meta
        Of the fork; None where stock NSQ answered.
    refusal
        Why there is no such topic, in the words of the cluster; empty when there is one.
    """

    channels: tuple[str, ...] = ()
    producers: tuple[Peer, ...] = ()
    partitions: Mapping[str, Peer] | None = None
    meta: Mapping[str, Any] | None = None
    refusal: str = ""

    @property
    def is_partitioned(self) -> bool:
        """Whether it is the fork's."""
        return self.partitions is not None

    @property
    def nodes(self) -> list[Peer]:
        """All nsqds of it, those of partitions first."""
        return distinct([*(self.partitions or {}).values(), *self.producers])


class MergedAnswer(NamedTuple):
    """The one answer that a client gets, without an envelope; or why there is no such topic in any cluster."""

    content: Mapping[str, Any]
    is_partitioned: bool
    refusal: str


def read_answer(content: bytes) -> Answer:
    """Read the answer to a lookup, with the fork's envelope or without.

    Raises
    ------
    Unreadable
        It is no JSON, or not of that shape.
    """
    found = opened(content)
    if found.keys().isdisjoint(_SHAPE):
        raise Unreadable("it names neither producers nor channels")
    partitions, meta = found.get("partitions"), found.get("meta")
    if partitions is None and meta is not None:
        partitions = {}
    return Answer(
        channels=tuple(_texts(found.get("channels"))),
        producers=tuple(_peers(found.get("producers"))),
        partitions=None if partitions is None else _partitions(partitions),
        meta=None if meta is None else _object(meta),
    )


def opened(content: bytes) -> Mapping[str, Any]:
    """Return the object that an answer is, out of its envelope; raises ``Unreadable``."""
    try:
        found = _object(msgspec.json.decode(content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable(f"it is no JSON: {error}") from error
    if "status_code" not in found:
        return found
    if found["status_code"] != _OK:
        raise Unreadable(f"status {found['status_code']}: {str(found.get('status_txt'))[:100]}")
    data = found.get("data")
    return {} if data is None else _object(data)


def merge(answers: Sequence[Answer | None], kept: Answer | None) -> MergedAnswer:
    """Make one answer of those of a topic's clusters, which come in the order of its route.

    ``partitions`` and ``meta`` are those of the first cluster alone, for partition maps of two clusters cannot be
    mixed; what the others have is in ``producers``, where every node stands once.

    Parameters
    ----------
    answers
        None for a cluster that failed.
    kept
        The last good answer of the first one, as far as it is not too old: it stands in when that one fails, if it has
        partitions, since a client would take those of another cluster for them.
    """
    first = answers[0] if answers else None
    if first is None and kept is not None and kept.is_partitioned:
        first = kept
    others = [answer for answer in answers[1:] if answer is not None]
    good = [answer for answer in (first, *others) if answer is not None]
    content: dict[str, Any] = {
        "channels": sorted({channel for answer in good for channel in answer.channels}),
        "producers": distinct(peer for answer in good for peer in answer.nodes),
    }
    is_partitioned = any(answer.is_partitioned for answer in good)
    if first is not None and first.is_partitioned:
        content["partitions"] = first.partitions
        if first.meta is not None:
            content["meta"] = first.meta
    elif is_partitioned:
        content["partitions"] = {}
    refusals = [answer.refusal for answer in good]
    return MergedAnswer(content, is_partitioned, refusals[0] if refusals and all(refusals) else "")


def union(answers: Sequence[Answer]) -> Answer:
    """Return the merged answers of several nsqlookupds of one cluster, of which each may be incomplete.

    Where two have the same partition, the earlier one wins: the caller puts the leader first.
    """
    found = [answer for answer in answers if not answer.refusal]
    if not found:
        return answers[0]
    channels = sorted({channel for answer in found for channel in answer.channels})
    producers = distinct(peer for answer in found for peer in answer.producers)
    of_fork = [answer for answer in found if answer.partitions is not None]
    if not of_fork:
        return Answer(tuple(channels), tuple(producers))
    partitions = {number: peer for answer in reversed(of_fork) for number, peer in (answer.partitions or {}).items()}
    meta = next((answer.meta for answer in of_fork if answer.meta is not None), None)
    return Answer(
        tuple(channels), tuple(producers), {number: partitions[number] for number in sorted(partitions, key=int)}, meta
    )


def distinct(peers: Iterable[Peer]) -> list[Peer]:
    """Return each nsqd once, in the order in which they come: the same address and port are the same nsqd."""
    found: dict[tuple[object, object], Peer] = {}
    for peer in peers:
        found.setdefault(_place(peer), peer)
    return list(found.values())


def merge_lists(answers: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Return the list of that name of several answers as one, sorted, each text once; other fields are ignored."""
    return {name: sorted({text for answer in answers for text in _texts(answer.get(name))})}


def merge_nodes(answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the nsqds of several answers to ``/nodes``, each once with its topics of all answers."""
    peers = [peer for answer in answers for peer in _peers(answer.get("producers"))]
    topics: dict[tuple[object, object], dict[str, bool]] = {}
    for peer in peers:
        known = topics.setdefault(_place(peer), {})
        names = _texts(peer.get("topics"))
        stones = peer.get("tombstones")
        hidden = stones if isinstance(stones, list) and len(stones) == len(names) else [False] * len(names)
        for name, is_hidden in zip(names, hidden, strict=True):
            known[name] = known.get(name, False) or bool(is_hidden)
    return {"producers": [_with_topics(peer, topics[_place(peer)]) for peer in distinct(peers)]}


def _place(peer: Peer) -> tuple[object, object]:
    return peer["broadcast_address"], peer["tcp_port"]


def _with_topics(peer: Peer, topics: Mapping[str, bool]) -> Peer:
    names = sorted(topics)
    return {**peer, "topics": names, "tombstones": [topics[name] for name in names]}


def _partitions(value: object) -> dict[str, Peer]:
    found = {str(number): _peer(peer) for number, peer in _object(value).items()}
    if not all(_NUMBER.fullmatch(number) for number in found):
        raise Unreadable("a partition has no number")
    return {number: found[number] for number in sorted(found, key=int)}


def _peers(value: object) -> list[Peer]:
    if value is None:
        return []
    if not isinstance(value, list) or len(value) > _MOST_PEERS:
        raise Unreadable("producers are no list")
    return [_peer(peer) for peer in value]


def _peer(value: object) -> Peer:
    found = _object(value)
    if not isinstance(found.get("broadcast_address"), str) or not isinstance(found.get("tcp_port"), int):
        raise Unreadable("an nsqd has no broadcast_address or tcp_port")
    return found


def _texts(value: object) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise Unreadable("a list of names is none")
    return value


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable("it is no object")
    return value
