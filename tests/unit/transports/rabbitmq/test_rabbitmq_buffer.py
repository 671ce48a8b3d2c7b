"""The buffer of a queue's reader, through loss of channels, and its acks."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bus.testing.writes import message
from bus.transports.rabbitmq.buffer import Buffer, HeldDelivery, State
from bus.transports.rabbitmq.settling import AckWindow, Settlement


class Queue:
    """A broker's queue with one channel: what is not acked comes again when the channel is lost."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.waiting: list[tuple[int, bool]] = []
        self.unacked: dict[int, int] = {}
        self.acked: list[int] = []
        self.tags = 0

    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.waiting))):
            number, suspect = self.waiting.pop(0)
            self.tags += 1
            self.unacked[self.tags] = number
            self.buffer.put(HeldDelivery(message(number), self, self.tags, suspect=suspect))

    def settle(self, tag: int) -> None:
        self.acked.append(self.unacked.pop(tag))

    def lose(self) -> None:
        self.buffer.lose(self)
        self.waiting = [(number, True) for number in self.unacked.values()] + self.waiting
        self.unacked.clear()
        self.tags = 0


def numbers(entries: list[HeldDelivery]) -> list[int]:
    return [int(entry.message.biz_id.removeprefix("order-")) for entry in entries]


def filled(count: int) -> tuple[Buffer, Queue]:
    buffer = Buffer()
    queue = Queue(buffer)
    queue.waiting = [(n, False) for n in range(count)]
    queue.deliver(count)
    return buffer, queue


def test_messages_come_in_order_and_no_more_than_asked_for() -> None:
    buffer, _ = filled(5)
    assert numbers(buffer.take(2)) == [0, 1]
    assert buffer.filled.is_set()
    assert numbers(buffer.take(10)) == [2, 3, 4]
    assert not buffer.filled.is_set()
    assert buffer.take(1) == []


def test_what_is_given_back_comes_first_and_in_order() -> None:
    buffer, _ = filled(5)
    taken = buffer.take(3)
    buffer.give_back([taken[2], taken[0]])
    assert numbers(buffer.take(9)) == [0, 2, 3, 4]


def test_acking_twice_acks_once() -> None:
    buffer, queue = filled(2)
    taken = buffer.take(2)
    buffer.finish([taken[0]])
    buffer.finish(taken)
    assert queue.acked == [0, 1]


def test_a_message_that_comes_again_while_it_is_held_is_not_given_out_twice() -> None:
    buffer, queue = filled(3)
    taken = buffer.take(2)
    queue.lose()
    queue.deliver(3)
    assert numbers(buffer.take(9)) == [2]
    assert taken[0].state is State.HELD
    buffer.finish(taken)
    assert queue.acked == [0, 1]


def test_what_is_acked_or_given_back_while_it_is_lost_comes_again_as_suspect() -> None:
    buffer, queue = filled(2)
    taken = buffer.take(2)
    queue.lose()
    buffer.finish([taken[0]])
    buffer.give_back([taken[1]])
    assert queue.acked == []
    queue.deliver(2)
    again = buffer.take(9)
    assert numbers(again) == [0, 1]
    assert all(entry.suspect for entry in again)


def test_a_second_copy_of_a_held_message_is_given_out() -> None:
    buffer, queue = filled(1)
    buffer.take(1)
    queue.waiting = [(0, False)]
    queue.deliver(1)
    assert numbers(buffer.take(1)) == [0]


def test_the_loss_of_one_source_is_not_the_other_s() -> None:
    buffer, queue = filled(1)
    other = Queue(buffer)
    other.waiting = [(7, False)]
    other.deliver(1)
    queue.lose()
    assert (buffer.held(queue), buffer.held(other)) == (0, 1)
    assert numbers(buffer.take(2)) == [7]
    assert (buffer.oldest(queue), buffer.oldest(other)) == (None, message(7).received_at)


def test_what_was_fetched_and_not_taken_can_be_withdrawn() -> None:
    buffer, queue = filled(3)
    buffer.take(1)
    assert buffer.withdraw(queue) == [2, 3]
    assert not buffer.filled.is_set()
    assert buffer.held(queue) == 1


class ShelfMachine(RuleBasedStateMachine):
    """No message is lost or acked unasked, and none is with the reader twice."""

    COUNT = 12

    def __init__(self) -> None:
        super().__init__()
        self.buffer = Buffer()
        self.queue = Queue(self.buffer)
        self.queue.waiting = [(n, False) for n in range(self.COUNT)]
        self.held: list[HeldDelivery] = []
        self.finished: set[int] = set()

    @rule(count=st.integers(1, 5))
    def deliver(self, count: int) -> None:
        self.queue.deliver(count)

    @rule(limit=st.integers(1, 5))
    def take(self, limit: int) -> None:
        taken = self.buffer.take(limit)
        assert len(taken) <= limit
        assert not set(numbers(taken)) & set(numbers(self.held))
        self.held += taken

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        entry = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.finished.update(numbers([entry]))
        self.buffer.finish([entry])

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        entry = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
        self.buffer.give_back([entry])

    @rule()
    def lose(self) -> None:
        self.queue.lose()

    @invariant()
    def every_message_is_somewhere_once(self) -> None:
        waiting = [number for number, _ in self.queue.waiting]
        assert sorted(waiting + list(self.queue.unacked.values()) + self.queue.acked) == list(range(self.COUNT))

    @invariant()
    def only_what_was_finished_is_acked(self) -> None:
        assert set(self.queue.acked) <= self.finished

    @invariant()
    def the_broker_and_the_shelf_count_alike(self) -> None:
        assert self.buffer.held(self.queue) == len(self.queue.unacked)


TestShelfMachine = ShelfMachine.TestCase


class SettlingMachine(RuleBasedStateMachine):
    """The acks sent settle exactly what was finished, whatever the order."""

    def __init__(self) -> None:
        super().__init__()
        self.settling = AckWindow()
        self.broker: set[int] = set()
        self.open: set[int] = set()
        self.tags = 0

    @rule(count=st.integers(1, 5))
    def deliver(self, count: int) -> None:
        for _ in range(count):
            self.tags += 1
            self.broker.add(self.tags)
            self.open.add(self.tags)
            self.settling.delivered(self.tags)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        tags = data.draw(st.sets(st.sampled_from(sorted(self.open)), min_size=1))
        self.open -= tags
        self.settling.finish([*tags, *tags, 10_000])

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        tags = data.draw(st.sets(st.sampled_from(sorted(self.open)), min_size=1))
        self.open -= tags
        self.broker -= tags
        self.settling.drop(tags)

    @rule()
    def flush(self) -> None:
        for settlement in self.settling.take():
            covered = {tag for tag in self.broker if tag <= settlement.tag} if settlement.up_to else {settlement.tag}
            assert covered <= self.broker - self.open
            self.broker -= covered
        assert self.broker == self.open
        assert self.settling.outstanding == len(self.open)
        assert self.settling.take() == []


TestSettlingMachine = SettlingMachine.TestCase


def test_a_finished_beginning_takes_one_frame() -> None:
    settling = AckWindow()
    for tag in range(1, 8):
        settling.delivered(tag)
    settling.finish([2, 1, 3, 6])
    assert settling.take() == [Settlement(3, True), Settlement(6, False)]
    settling.finish([4])
    assert settling.take() == [Settlement(4, False)]
    settling.finish([7, 5])
    assert settling.take() == [Settlement(7, True)]
