"""Makes what a cluster lacks of a topic: the topic, its partitions, and the channels of the other cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from bus.domain.routing.answers import Unreadable, opened
from bus.domain.routing.evidence import TopicObservation
from bus.localized_text import AnyText, localized
from lookup.cluster import Cluster
from lookup.migrating.evidence import WITHIN, address_of
from lookup.nsqlookupd import LookupAnswer, LookupUnavailable, NsqlookupdClient

_FAILURE: Final = 400
_FLAGS: Final = {
    "ordered": "orderedmulti",
    "multi_part": "multipart",
    "extend_support": "extend",
    "disable_channel_auto_create": "disable_channel_auto_create",
}


class Change(NamedTuple):
    """One request: to the leading nsqlookupd of the fork, or to the nsqd at ``node``."""

    path: str
    query: Mapping[str, str | int]
    node: str = ""

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.query)}"

    @property
    def said(self) -> AnyText:
        """Its action, for people."""
        where = self.node or localized("the leading nsqlookupd")
        return localized("POST {target} to {where}", target=self.target, where=where)


class Preparation:
    """Makes topics and channels; whatever is there stays as it is, so that all may be repeated."""

    def __init__(self, client: NsqlookupdClient) -> None:
        self._client = client

    async def plan(
        self, cluster: Cluster, topic: str, partitions: int, own: TopicObservation, other: TopicObservation
    ) -> list[Change]:
        """Return the next changes that give ``cluster`` the same as ``other``; nothing when it has all of it.

        What comes after these is only known once they are made.

        Raises
        ------
        Away
            The cluster does not list its nsqds, or has none.
        """
        if not partitions:
            return await self._plan_stock(cluster, topic, own, other)
        if not own.exists:
            return [Change("/topic/create", _creation(topic, partitions, other))]
        if own.partitions < partitions:
            return [Change("/topic/partition/expand", {"topic": topic, "partition_num": partitions})]
        missing = sorted(own.lacking(other.channels))
        if (own.meta or {}).get("disable_channel_auto_create"):
            return [Change("/channel/create", {"topic": topic, "channel": channel}) for channel in missing]
        return [
            Change("/channel/create", {"topic": topic, "channel": channel, "partition": number}, node)
            for channel in missing
            for part in own.parts
            for node, _, number in [part.place.rpartition("/")]
            if channel not in part.names
        ]

    async def make(self, cluster: Cluster, changes: list[Change]) -> AnyText:
        """Make them, and return what was refused first; empty when nothing was."""
        for change in changes:
            try:
                answered = await self._change(cluster, change)
            except LookupUnavailable as error:
                return error.said
            if answered.status >= _FAILURE:
                return localized(
                    "{cluster} refuses {target}: {why}",
                    cluster=cluster.name,
                    target=change.target,
                    why=answered.content[:200].decode("utf-8", "replace"),
                )
        return ""

    async def _change(self, cluster: Cluster, change: Change) -> LookupAnswer:
        if change.node:
            return await self._client.ask(change.node, change.target, within=WITHIN, method="POST")
        return await cluster.change("POST", change.target, "")

    async def _plan_stock(
        self, cluster: Cluster, topic: str, own: TopicObservation, other: TopicObservation
    ) -> list[Change]:
        """Return topics and channels for all nsqds, for a topic is on each that a producer writes to."""
        if own.exists and not own.lacking(other.channels):
            return []
        nodes = await self._nodes(cluster)
        if not nodes:
            raise LookupUnavailable(localized("cluster {name} has no nsqd", name=cluster.name))
        topics = [Change("/topic/create", {"topic": topic}, node) for node in nodes]
        return topics + [
            Change("/channel/create", {"topic": topic, "channel": channel}, node)
            for channel in sorted(other.channels)
            for node in nodes
        ]

    async def _nodes(self, cluster: Cluster) -> list[str]:
        try:
            found = [opened(one.content) for one in await cluster.ask("/nodes")]
        except Unreadable as error:
            raise LookupUnavailable(localized("cluster {name} does not report its nsqds", name=cluster.name)) from error
        return list(dict.fromkeys(address_of(peer) for one in found for peer in one.get("producers") or ()))


def _creation(topic: str, partitions: int, other: TopicObservation) -> dict[str, str | int]:
    meta: Mapping[str, Any] = other.meta or {}
    replicas = meta.get("replica")
    found: dict[str, str | int] = {
        "topic": topic,
        "partition_num": partitions,
        "replicator": replicas if isinstance(replicas, int) and replicas > 0 else 1,
        # A partition whose leader is killed may take no messages any more if it was not synced.
        "syncdisk": 1,
    }
    return found | {name: "true" for flag, name in _FLAGS.items() if meta.get(flag)}
