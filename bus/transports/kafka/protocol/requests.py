"""Requests to a cluster, each with its errors checked.

Functions raise the client library's ``KafkaError`` or a time-out; who calls them sets the deadline and translates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aiokafka import errors as kafka
from aiokafka.protocol.admin import (
    AlterConfigsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
)
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.group import LeaveGroupRequest
from aiokafka.protocol.offset import OffsetRequest

from bus.transports.kafka.commits import ANYWHERE, METADATA_BYTES, Commit, decode_commit, encode_commit
from bus.transports.kafka.config import milliseconds
from bus.transports.kafka.connection import Cluster
from bus.transports.kafka.protocol.metadata import Layout

LATEST: Final = -1
EARLIEST: Final = -2
_TOPIC_RESOURCE: Final = 2
_SET_ON_TOPIC: Final = 1
_NO_OFFSET: Final = -1
_ANY_REPLICA: Final = -1
_READ_UNCOMMITTED: Final = 0


class Member(NamedTuple):
    """The author of a commit: a member of a group in one generation, which fences those of earlier ones."""

    generation: int
    id: str


NOBODY: Final = Member(-1, "")


class Setting(NamedTuple):
    """A topic's setting; ``own`` when it was set on the topic rather than taken from the broker's defaults."""

    value: str
    own: bool


async def create_topic(
    cluster: Cluster, topic: str, partitions: int, replication: int, settings: Mapping[str, str]
) -> None:
    """Make a topic unless it is there."""
    order: tuple[Any, ...] = (topic, partitions, replication, [], list(settings.items()))
    request = CreateTopicsRequest([order], timeout=milliseconds(cluster.timeout), validate_only=False)
    for _, error_code, *message in (await cluster.ask_controller(request)).topic_errors:
        _raise(error_code, *message, but=kafka.TopicAlreadyExistsError)


async def topic_settings(cluster: Cluster, topic: str) -> dict[str, Setting]:
    """Return a topic's settings by name."""
    answer = await cluster.ask(DescribeConfigsRequest([(_TOPIC_RESOURCE, topic, None)]))
    settings: dict[str, Setting] = {}
    for error_code, message, _, _, entries in answer.resources:
        _raise(error_code, message)
        settings |= {name: Setting(value or "", source == _SET_ON_TOPIC) for name, value, _, source, *_ in entries}
    return settings


async def set_topic_settings(cluster: Cluster, topic: str, settings: Mapping[str, str]) -> None:
    """Replace all settings of a topic; those left out fall back to the broker's defaults."""
    answer = await cluster.ask_controller(AlterConfigsRequest([(_TOPIC_RESOURCE, topic, list(settings.items()))]))
    for error_code, message, *_ in answer.resources:
        _raise(error_code, message)


async def offsets(cluster: Cluster, topics: Mapping[str, Layout], at: int) -> dict[str, dict[int, int]]:
    """Return an offset of each partition that is led: the end, the beginning, or the first at a time (ms).

    Parameters
    ----------
    topics
        By name.
    at
        ``LATEST``, ``EARLIEST``, or a time; a partition without a record since then is left out.
    """
    asked: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for topic, layout in topics.items():
        for partition, leader in layout.leaders.items():
            if leader is not None:
                asked.setdefault(leader, {}).setdefault(topic, []).append((partition, at))
    found: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for leader, wanted in asked.items():
        answer = await cluster.ask_node(leader, OffsetRequest(_ANY_REPLICA, _READ_UNCOMMITTED, list(wanted.items())))
        for topic, partitions in answer.topics:
            for partition, error_code, _, offset, *_ in partitions:
                _raise(error_code, topic)
                if offset != _NO_OFFSET:
                    found[topic][partition] = offset
    return found


async def committed(cluster: Cluster, group: str, topic: str, layout: Layout) -> dict[int, Commit]:
    """Return a group's commits; a partition without one is left out.

    A commit made when the topic was another one of the same name says nothing about this one, which is to be read from
    its beginning.
    """
    request = OffsetFetchRequest(group, [(topic, list(layout.leaders))])
    answer = await cluster.ask_coordinator(group, request, _check_fetched)
    found = {
        partition: decode_commit(offset, metadata or "")
        for _, entries in answer.topics
        for partition, offset, metadata, _ in entries
        if offset != _NO_OFFSET
    }
    return {
        partition: commit if commit.topic in ("", layout.id) else Commit(0, ANYWHERE, topic=layout.id)
        for partition, commit in found.items()
    }


async def commit(
    cluster: Cluster,
    group: str,
    topic: str,
    commits: Mapping[int, Commit],
    member: Member,
    *,
    limit: int = METADATA_BYTES,
) -> None:
    """Commit as a member of a group, with metadata of at most ``limit`` bytes.

    Raises
    ------
    UnknownMemberIdError, IllegalGenerationError
        The group has gone on without the member.
    RebalanceInProgressError
        It is waiting for the member to join again.
    """
    entries = [(partition, each.offset, encode_commit(each, limit=limit)) for partition, each in commits.items()]
    request = OffsetCommitRequest(group, *member, OffsetCommitRequest.DEFAULT_RETENTION_TIME, [(topic, entries)])
    await cluster.ask_coordinator(group, request, _check_committed)


async def commit_from_outside(cluster: Cluster, group: str, topic: str, commits: Mapping[int, Commit]) -> bool:
    """Commit for a group without being in it; False when it has members, who alone may commit."""
    try:
        await commit(cluster, group, topic, commits, NOBODY)
    except (kafka.UnknownMemberIdError, kafka.IllegalGenerationError, kafka.RebalanceInProgressError):
        return False
    return True


async def delete_group(cluster: Cluster, group: str) -> bool:
    """Delete a group with its commits; False when it has members."""
    try:
        await cluster.ask_coordinator(group, DeleteGroupsRequest([group]), _check_deleted)
    except kafka.NonEmptyGroup:
        return False
    except kafka.GroupIdNotFound:
        return True
    return True


async def has_members(cluster: Cluster, group: str) -> bool:
    """Whether anybody is in a group."""
    return bool(members_of(await cluster.ask_coordinator(group, DescribeGroupsRequest([group]), _check_described)))


async def expel_members(cluster: Cluster, group: str) -> None:
    """Take every member out of a group; one that is alive joins again when it notices."""
    answer = await cluster.ask_coordinator(group, DescribeGroupsRequest([group]), _check_described)
    for member in members_of(answer):
        await cluster.ask_coordinator(group, LeaveGroupRequest(group, member), lambda _: None)


def members_of(described: Any) -> list[str]:
    """Return the ids of the members in an answer to a request to describe groups."""
    return [member_id for _, _, _, _, _, members, *_ in described.groups for member_id, *_ in members]


def _check_fetched(answer: Any) -> None:
    # The client library's own reading overlooks the error of the whole answer, and takes a coordinator that is still
    # loading for a group without commits.
    _raise(answer.error_code)
    for _, partitions in answer.topics:
        for *_, error_code in partitions:
            _raise(error_code)


def _check_committed(answer: Any) -> None:
    for _, partitions in answer.topics:
        for _, error_code in partitions:
            _raise(error_code)


def _check_deleted(answer: Any) -> None:
    for _, error_code in answer.results:
        _raise(error_code)


def _check_described(answer: Any) -> None:
    for error_code, *_ in answer.groups:
        _raise(error_code)


def _raise(error_code: int, message: str | None = None, *, but: type[Exception] | None = None) -> None:
    error = kafka.for_code(error_code)
    if error is kafka.NoError or error is but:
        return
    raise error(message or "")
