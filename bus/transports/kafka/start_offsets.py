"""The start offset of a consumer in newly assigned partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from aiokafka import errors as kafka

from bus.transports.kafka.commits import ANYWHERE, Commit, Window
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.protocol.metadata import layout_of
from bus.transports.kafka.protocol.requests import EARLIEST, LATEST, committed, offsets


class Group(NamedTuple):
    """A subscription's group: its name, its topic, and whether the subscription is ensured in this process."""

    name: str
    topic: str
    is_ensured: Callable[[], bool]


class NotStarted(kafka.KafkaError):  # type: ignore[misc]
    """The group has no commits: its subscription was removed, or was never made."""


async def has_start(cluster: Cluster, group: Group) -> bool:
    """Whether anybody may join the group yet."""
    if group.is_ensured():
        return True
    layout = await layout_of(cluster, group.topic)
    return layout is not None and bool(await committed(cluster, group.name, group.topic, layout))


async def windows(cluster: Cluster, group: Group, assigned: Collection[int], limit: int) -> dict[int, Window]:
    """Return a window for each assigned partition, at the commit of its last owner.

    Raises
    ------
    NotStarted
        The group has no commits, and this process has not made the subscription.
    KafkaError, OSError
        The cluster does not answer, or a partition has no leader.
    """
    layout = await layout_of(cluster, group.topic)
    if layout is None:
        raise kafka.UnknownTopicOrPartitionError(group.topic)
    ends = (await offsets(cluster, {group.topic: layout}, LATEST))[group.topic]
    begins = (await offsets(cluster, {group.topic: layout}, EARLIEST))[group.topic]
    if not set(assigned) <= ends.keys() & begins.keys():
        raise kafka.LeaderNotAvailableError(f"partitions of {group.topic} have no leader")
    commits = await committed(cluster, group.name, group.topic, layout)
    if assigned and not commits and not group.is_ensured():
        raise NotStarted(f"group {group.name} has no commits")
    # Without any commit they were lost, and what was read before is not known; else the partition is a new one.
    reach = 0 if commits else ANYWHERE
    starts = {partition: commits.get(partition, Commit(begins[partition], reach)) for partition in assigned}
    return {
        partition: Window(_inside(start, begins[partition], ends[partition], layout.id), limit, ends[partition])
        for partition, start in starts.items()
    }


def _inside(commit: Commit, begin: int, end: int, topic_id: str) -> Commit:
    """Return the commit, moved to where the log of the topic is.

    Below its beginning the log has been cut. Beyond its end it has begun anew, and the commit is of the one before.
    """
    if commit.offset > end:
        return Commit(begin, ANYWHERE, topic=topic_id)
    if commit.offset < begin:
        return commit._replace(offset=begin, done=commit.done >> (begin - commit.offset), topic=topic_id)
    return commit._replace(topic=topic_id)
