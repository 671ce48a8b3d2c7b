"""The commands that publish, from their bodies to the log and the answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

from tests.doubles.youzan.frames import Command, trace_reply
from tests.doubles.youzan.log import Draft, Entry
from tests.doubles.youzan.refusals import NOT_EXIST, Refused, bad_body, invalid
from tests.doubles.youzan.topics import Partition, Topic, Topics, valid_name

TRACE_KEY: Final = "##trace_id"
_TRACE: Final = 8
_MOST_TRACE: Final = 2**64 - 1


def publish(topics: Topics, node: int, command: Command, body: bytes) -> tuple[Partition, list[Entry], bytes]:
    """Publish on one nsqd; return where, what was written and the answer."""
    topic, number = _target(topics, node, command)
    partition = topic.partitions.get(number)
    if partition is None:
        raise Refused(NOT_EXIST, closes=True)
    partition.check_copy(node)
    drafts = list(_BODIES[command.name](body))
    if any(draft.ext is not None for draft in drafts) and not topic.meta.extend_support:
        raise Refused("E_EXT_NOT_SUPPORT", f"ext content not supported in topic {topic.name}", closes=False)
    entries = partition.publish(node, drafts)
    return partition, entries, _answer(command.name, entries)


def default_partition(topic: Topic, node: int) -> int:
    """Return the partition that is meant when none is named: the first that this nsqd leads, else any of its."""
    here = topic.on(node)
    return next((one.number for one in here if one.leader == node), here[0].number if here else -1)


def partition_number(command: Command, index: int) -> int | None:
    """Return the number of a partition among the parameters, None when there is none."""
    if len(command.params) <= index:
        return None
    try:
        return int(command.params[index])
    except ValueError:
        raise Refused("E_BAD_PARTITION", f"topic partition is not valid: {command.text(index)}", closes=True) from None


def _target(topics: Topics, node: int, command: Command) -> tuple[Topic, int]:
    if not command.params:
        raise invalid("insufficient number of parameters")
    number = partition_number(command, 1)
    if not valid_name(command.text(0)):
        raise Refused("E_BAD_TOPIC", f"topic name {command.text(0)!r} is not valid", closes=True)
    topic = topics.find(command.text(0))
    if topic is None:
        raise Refused(NOT_EXIST, closes=True)
    if number in {None, -1}:
        number = default_partition(topic, node)
        if topic.meta.ordered:
            raise Refused("E_BAD_PARTITION", "topic partition is not valid for multi partition: -1", closes=True)
    return topic, number


def _answer(name: str, entries: list[Entry]) -> bytes:
    size = sum(entry.size for entry in entries)
    if name == "MPUB_TRACE":
        return trace_reply(entries[0], 0, size)
    draft = entries[0].draft
    traced = name == "PUB_TRACE" or (name == "PUB_EXT" and TRACE_KEY in json.loads(draft.ext or b"{}"))
    return trace_reply(entries[0], draft.trace, size) if traced else b"OK"


def _plain(body: bytes) -> Draft:
    return Draft(body)


def _traced(body: bytes) -> Draft:
    if len(body) <= _TRACE:
        raise bad_body(f"invalid body size {len(body)} with trace id enabled")
    return Draft(body[_TRACE:], int.from_bytes(body[:_TRACE], "big"))


def _extended(body: bytes) -> Draft:
    begin = 2 + int.from_bytes(body[:2], "big")
    if len(body) <= begin:
        raise bad_body(f"invalid body size {len(body)} in ext json header content length")
    return Draft(body[begin:], trace_of(body[2:begin]), body[2:begin])


def trace_of(ext: bytes) -> int:
    """Return the trace id in a header, 0 when it has none."""
    try:
        header = json.loads(ext)
        value = header.get(TRACE_KEY, "0")
    except (ValueError, AttributeError):
        raise Refused("E_INVALID_JSON_HEADER", "fail to parse json header", closes=False) from None
    if not isinstance(value, str):
        raise Refused("INVALID_TRACE_ID", "passin trace id should be string", closes=False)
    if not (value.isascii() and value.isdigit() and int(value) <= _MOST_TRACE):
        raise Refused("INVALID_TRACE_ID", "invalid trace id", closes=False)
    return int(value)


def _each(read: Callable[[bytes], Draft]) -> Callable[[bytes], Iterator[Draft]]:
    def drafts(body: bytes) -> Iterator[Draft]:
        count, place = int.from_bytes(body[:4], "big", signed=True), 4
        if count <= 0:
            raise bad_body(f"MPUB invalid message count {count}")
        for index in range(count):
            size = int.from_bytes(body[place : place + 4], "big", signed=True)
            place += 4 + max(size, 0)
            if size <= 0 or place > len(body):
                raise bad_body(f"MPUB invalid message({index}) body size {size}")
            yield read(body[place - size : place])

    return drafts


def _one(read: Callable[[bytes], Draft]) -> Callable[[bytes], Iterator[Draft]]:
    return lambda body: iter([read(body)])


_BODIES: Final = {
    "PUB": _one(_plain),
    "PUB_TRACE": _one(_traced),
    "PUB_EXT": _one(_extended),
    "MPUB": _each(_plain),
    "MPUB_TRACE": _each(_traced),
    "MPUB_EXT": _each(_extended),
}
PUBLISHES: Final = frozenset(_BODIES)
