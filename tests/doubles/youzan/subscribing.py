"""The commands that subscribe: which partition and channel they mean, and what they are refused for."""

from __future__ import annotations

from tests.doubles.youzan.channel import Channel
from tests.doubles.youzan.frames import Command
from tests.doubles.youzan.identity import Identity
from tests.doubles.youzan.publishing import default_partition, partition_number
from tests.doubles.youzan.refusals import NOT_EXIST, Refused, invalid
from tests.doubles.youzan.topics import Partition, Topic, Topics, valid_name

SUBSCRIBES = frozenset({"SUB", "SUB_ORDERED", "SUB_ADVANCED"})


def subscribe(topics: Topics, node: int, command: Command, identity: Identity) -> tuple[Topic, Partition, Channel]:
    """Return what a client subscribes to, with the channel made and set to where it is to begin.

    Raises
    ------
    Refused
        It may not; every refusal of these commands costs the connection.
    """
    if not identity.heartbeat:
        raise invalid("cannot SUB with heartbeats disabled")
    if len(command.params) < 2:
        raise invalid("SUB insufficient number of parameters")
    topic, partition = _found(topics, node, command)
    _check(topic, command, identity)
    partition.check_leader(node, closes=True)
    channel = _channel(topic, partition, command.text(1))
    if command.name == "SUB_ORDERED":
        channel.ordered = True
    if command.name == "SUB_ADVANCED" and len(command.params) > 3 and command.params[3]:
        place = _place(partition, command.text(3))
        if not channel.consumers:
            channel.seek(place)
    return topic, partition, channel


def _found(topics: Topics, node: int, command: Command) -> tuple[Topic, Partition]:
    for index, code in enumerate(("E_BAD_TOPIC", "E_BAD_CHANNEL")):
        if not valid_name(command.text(index)):
            raise Refused(code, f"SUB name {command.text(index)!r} is not valid", closes=True)
    number = partition_number(command, 2)
    topic = topics.find(command.text(0))
    if topic is None:
        raise Refused(NOT_EXIST, closes=True)
    partition = topic.partitions.get(default_partition(topic, node) if number in {None, -1} else number)
    if partition is None:
        raise Refused(NOT_EXIST, closes=True)
    partition.check_copy(node)
    return topic, partition


def _check(topic: Topic, command: Command, identity: Identity) -> None:
    if topic.meta.ordered and command.name != "SUB_ORDERED":
        raise Refused("E_SUB_ORDER_IS_MUST", "this topic is configured only allow ordered sub", closes=True)
    if topic.meta.extend_support and not identity.extend_support:
        raise Refused("E_SUB_EXTEND_NEED", "this topic is extended and should identify as such", closes=True)
    if identity.extend_support and not topic.meta.extend_support:
        raise Refused("E_SUB_EXTEND_FORBIDDON", "this topic is not extended", closes=True)


def _channel(topic: Topic, partition: Partition, name: str) -> Channel:
    if topic.meta.disable_channel_auto_create and name not in topic.registered:
        raise Refused("E_SUB_CHANNEL_NOT_REGISTERED", "channel is not registered under topic.", closes=True)
    return partition.channel(name)


def _place(partition: Partition, offset: str) -> int:
    """Return the place in the log that ``kind:value`` means."""
    log, (kind, _, text) = partition.log, offset.partition(":")
    try:
        value = int(text)
    except ValueError:
        raise invalid(f"invalid consume offset: {offset}") from None
    if kind == "special" and value == -1:
        return len(log.entries)
    if kind == "virtual_queue" and 0 <= value <= log.end:
        return log.at_offset(value)
    if kind == "timestamp" and value >= 0:
        return log.at_time(value)
    if kind == "msgcount" and 0 <= value <= len(log.entries):
        return value
    raise invalid(f"invalid consume offset: {offset}")
