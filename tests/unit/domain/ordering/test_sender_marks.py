"""The mark of the group that is written to is in the chain, and tells of what was confirmed."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from bus.domain.message import Message
from bus.domain.ordering.chain import Chain, Role, renewed
from bus.domain.ordering.effects import (
    CheckGroup,
    Effect,
    HasMark,
    KnownChain,
    Mark,
    OpenWriter,
    Procedure,
    PutChain,
    ReadChain,
    Refusal,
    WriteMessages,
)
from bus.domain.ordering.sender import Admission, ChainSender
from bus.ports.broker_group import GroupStatus

Answer = TypeVar("Answer")


class World:
    """A coordinator and a group "a", whose mark is made of its topic's id and end."""

    def __init__(self) -> None:
        self.chain, self.version = Chain(), 0
        self.end = self.written = 0
        self.topic = "id"
        self.opened = 0
        self.marks_made = 0
        self.overtaken = list[str]()
        self.sender = ChainSender("s", "", ["a"], lambda: 0.0, lambda: 0)
        self.perform(self.sender.tend())

    def perform(self, procedure: Procedure[Answer]) -> Answer:
        """Run a procedure to its end."""
        answer: Any = None
        while True:
            try:
                effect = procedure.send(answer)
            except StopIteration as over:
                result: Answer = over.value
                return result
            answer = self._coordinate(effect) if isinstance(effect, ReadChain | PutChain) else self._do(effect)

    def send(self) -> list[int]:
        """Send a message."""
        return self.perform(self.sender.send([Message("1", "c", b"")], Admission(self.sender.tenure.epoch)))

    def others_write(self, chain: Chain) -> None:
        """Have another process write the chain."""
        self.chain, self.version = chain, self.version + 1

    def _coordinate(self, effect: ReadChain | PutChain) -> object:
        if isinstance(effect, ReadChain):
            return KnownChain(self.chain, self.version)
        if (mark := effect.chain.marks.get("a", "")) in self.overtaken:
            self.overtaken.remove(mark)
            self.others_write(renewed(self.chain, Role.READER, 6.0))
        if effect.version != self.version:
            return Refusal.CONFLICT
        self.others_write(effect.chain)
        return self.version

    def _do(self, effect: Effect) -> object:
        match effect:
            case CheckGroup():
                return GroupStatus(is_whole=True, is_empty=True)
            case OpenWriter():
                self.opened += 1
                return True
            case WriteMessages(_, _, messages):
                self.end += len(messages)
                return len(messages)
            case Mark(_, known):
                self.marks_made += not known
                return f"{self.topic}@{self.end}"
            case HasMark(_, mark):
                topic, _, end = mark.partition("@")
                return topic == self.topic and int(end) <= self.end
        raise NotImplementedError(effect)


def test_the_mark_tells_of_what_was_written_first_though_a_reader_renews_its_lease() -> None:
    world = World()
    world.overtaken = ["id@1"]
    assert world.send()
    assert world.chain.marks == {"a": "id@1"}


def test_the_mark_of_the_group_that_is_written_to_follows_what_was_confirmed() -> None:
    world = World()
    assert world.send()
    assert world.send()
    assert world.chain.marks == {"a": "id@1"}, "messages do not wait for that"
    world.perform(world.sender.look_around())
    assert world.chain.marks == {"a": "id@2"}


def test_a_mark_that_an_earlier_version_dropped_is_put_back() -> None:
    world = World()
    assert world.send()
    world.others_write(msgspec.structs.replace(world.chain, marks={}))
    world.perform(world.sender.tend())
    world.perform(world.sender.look_around())
    assert world.chain.marks == {"a": "id@1"}


def test_a_group_whose_mark_was_dropped_and_is_gone_is_lost() -> None:
    world = World()
    assert world.send()
    world.others_write(msgspec.structs.replace(world.chain, marks={}))
    world.perform(world.sender.tend())
    world.topic = "another"
    world.perform(world.sender.look_around())
    assert world.chain.consume[0].is_lost


def test_a_writer_is_opened_once_though_a_reader_renews_its_lease_each_time() -> None:
    world = World()
    world.overtaken = ["id@0"] * 5
    assert world.send()
    assert (world.opened, world.marks_made) == (1, 1)
