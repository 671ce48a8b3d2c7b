"""A channel without a network: what is sent to whom, and when again."""

from __future__ import annotations

import pytest

from tests.doubles.youzan.channel import Channel, NotInFlight
from tests.doubles.youzan.log import Draft, Entry, Log


class Listener:
    """A consumer that remembers what it was sent as (body, attempts)."""

    msg_timeout = 10.0

    def __init__(self, channel: Channel, ready: int = 100) -> None:
        self.channel = channel
        self.ready = ready
        self.got: list[tuple[bytes, int]] = []
        self.ids: list[int] = []
        channel.join(self)

    @property
    def wants_more(self) -> bool:
        return self.channel.held_by(self) < self.ready

    def send(self, entry: Entry, attempts: int) -> None:
        self.got.append((entry.draft.body, attempts))
        self.ids.append(entry.id)


@pytest.fixture
def log() -> Log:
    return Log(0)


@pytest.fixture
def channel(log: Log) -> Channel:
    return Channel("billing", log)


def fill(log: Log, *bodies: bytes) -> list[Entry]:
    return [log.append(Draft(body), number * 10**9) for number, body in enumerate(bodies)]


def test_consumers_take_turns_as_far_as_they_are_ready(log: Log, channel: Channel) -> None:
    one, two = Listener(channel, ready=1), Listener(channel, ready=3)
    fill(log, b"a", b"b", b"c", b"d", b"e")
    channel.hand_out(0)
    assert (one.got, two.got) == ([(b"a", 1)], [(b"b", 1), (b"c", 1), (b"d", 1)])
    channel.finish(one, one.ids[0])
    channel.hand_out(0)
    assert one.got[1:] == [(b"e", 1)]


def test_depth_counts_what_is_not_finished_and_confirmed_has_no_gaps(log: Log, channel: Channel) -> None:
    consumer = Listener(channel)
    fill(log, b"a", b"b", b"c")
    channel.hand_out(0)
    channel.finish(consumer, consumer.ids[1])
    assert (channel.depth, channel.confirmed) == (2, 0)
    channel.finish(consumer, consumer.ids[0])
    assert (channel.depth, channel.confirmed) == (1, 2)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_timeout_sends_again_and_the_late_answer_fails(log: Log, channel: Channel, ordered: bool) -> None:
    channel.ordered = ordered
    consumer = Listener(channel)
    fill(log, b"a")
    channel.hand_out(0)
    assert not channel.expire(9.9)
    assert channel.expire(10)
    with pytest.raises(NotInFlight):
        channel.finish(consumer, consumer.ids[0])
    channel.hand_out(10)
    assert consumer.got == [(b"a", 1), (b"a", 2)]
    assert channel.timed_out == 1


def test_touch_moves_the_timeout(log: Log, channel: Channel) -> None:
    consumer = Listener(channel)
    fill(log, b"a")
    channel.hand_out(0)
    channel.touch(consumer, consumer.ids[0], 8)
    assert not channel.expire(17)
    assert channel.expire(18)


def test_a_requeued_message_comes_before_what_is_new_and_after_its_delay(log: Log, channel: Channel) -> None:
    consumer = Listener(channel, ready=2)
    fill(log, b"a", b"b", b"c")
    channel.hand_out(0)
    channel.requeue(consumer, consumer.ids[0], 5, 0)
    channel.requeue(consumer, consumer.ids[1], 0, 0)
    assert channel.deferred == 1
    channel.hand_out(0)
    assert consumer.got[2:] == [(b"b", 2), (b"c", 1)]
    assert not channel.expire(4.9)
    assert channel.expire(5)
    consumer.ready = 3
    channel.hand_out(5)
    assert consumer.got[4:] == [(b"a", 2)]


def test_an_ordered_channel_serves_one_message_to_the_first_consumer(log: Log, channel: Channel) -> None:
    channel.ordered = True
    first, second = Listener(channel), Listener(channel)
    fill(log, b"a", b"b")
    channel.hand_out(0)
    channel.hand_out(0)
    assert (first.got, second.got) == ([(b"a", 1)], [])
    channel.requeue(first, first.ids[0], 5, 0)
    assert (len(channel.in_flight), channel.requeued) == (1, 0)
    first.ready = 0
    channel.expire(10)
    channel.hand_out(10)
    assert second.got == []
    channel.leave(first)
    channel.hand_out(0)
    assert second.got == [(b"a", 2)]


def test_nobody_answers_for_another(log: Log, channel: Channel) -> None:
    owner, other = Listener(channel), Listener(channel, ready=0)
    fill(log, b"a")
    channel.hand_out(0)
    for answer in (channel.finish, lambda who, what: channel.touch(who, what, 0)):
        with pytest.raises(NotInFlight):
            answer(other, owner.ids[0])
    channel.finish(owner, owner.ids[0])


def test_a_log_is_found_by_offset_and_time(log: Log) -> None:
    first, second, third = fill(log, b"a", b"bb", b"ccc")
    assert (first.size, second.offset, third.offset, log.end) == (31, 31, 63, 96)
    assert [log.at_offset(offset) for offset in (0, 1, 31, 63, 96)] == [0, 1, 1, 2, 3]
    assert [log.at_time(seconds) for seconds in (0, 1, 3)] == [0, 1, 3]
