"""Shares of messages in flight, splits of batches, and waits."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from bus.transports.backoff import Backoff
from bus.transports.nsq.flow import Demand, Load, share
from bus.transports.nsq.protocol.http import Limits
from bus.transports.nsq.publisher import split

loads = st.lists(st.builds(Load, st.integers(0, 50), st.booleans(), st.integers(1, 2500)), min_size=1, max_size=8)


def busy(*in_flight: int) -> list[Load]:
    return [Load(count, True, 2500) for count in in_flight]


def test_messages_in_flight_are_shared_evenly() -> None:
    assert share(10, busy(0, 0)) == [5, 5]
    assert share(11, busy(0, 0)) == [6, 5]
    assert share(12, busy(6, 2)) == [8, 4]
    assert share(7, busy(0)) == [7]
    assert share(5, []) == []


def test_a_connection_over_which_nothing_comes_keeps_one() -> None:
    assert share(20, [Load(0, True, 2500), Load(0, False, 2500)]) == [19, 1]
    assert share(20, [Load(0, False, 2500), Load(0, False, 2500)]) == [10, 10]


def test_every_connection_may_have_one_though_that_is_more_than_wanted() -> None:
    assert share(1, busy(0, 0, 0)) == [1, 1, 1]
    assert share(10, busy(10, 0)) == [10, 1]


def test_none_is_wanted_of_a_consumer_that_rests() -> None:
    assert share(0, busy(3, 0)) == [0, 0]


@given(st.integers(1, 3000), loads)
def test_nobody_waits_for_ever_and_nobody_gets_more_than_nsqd_allows(total: int, loads: list[Load]) -> None:
    counts = share(total, loads)
    spare = total - sum(load.in_flight for load in loads)
    for count, load in zip(counts, loads, strict=True):
        assert 1 <= count <= load.most
        assert spare <= 0 or count > load.in_flight or count == load.most
    allowed_more = sum(max(count - load.in_flight, 0) for count, load in zip(counts, loads, strict=True))
    assert allowed_more <= max(spare, 0) + len(loads)


def test_an_appetite_grows_at_once_and_shrinks_with_reserve() -> None:
    demand = Demand(100)
    assert demand.total == 0
    assert demand.ask(16, 0)
    assert demand.total == 16
    assert demand.ask(16, 16)
    assert demand.total == 32
    assert not demand.ask(10, 6)
    assert demand.total == 32
    assert demand.ask(10, 5)
    assert demand.total == 15
    assert demand.ask(1000, 5)
    assert demand.total == 100
    demand.resting = True
    assert demand.total == 0
    assert demand.ask(60, 0)
    assert demand.total == 100


sizes = st.dictionaries(st.integers(0, 1000), st.integers(1, 120), max_size=40)


@given(sizes)
def test_a_batch_is_split_within_the_limits_and_in_order(sizes: dict[int, int]) -> None:
    parts = split(sizes, Limits(message=100, body=300))
    assert all(parts)
    assert [index for part in parts for index in part] == [index for index, size in sizes.items() if size <= 100]
    for part in parts:
        assert 4 + sum(4 + sizes[index] for index in part) <= 300
    for one, other in itertools.pairwise(parts):
        assert 4 + sum(4 + sizes[index] for index in [*one, other[0]]) > 300


def test_a_message_that_fits_alone_and_not_into_a_batch_is_left_out() -> None:
    assert split({1: 100, 2: 50}, Limits(message=100, body=100)) == [[2]]
    assert split({}, Limits(message=100, body=100)) == []


def test_waits_double_up_to_a_bound_and_vary_by_half() -> None:
    longest = Backoff(0.1, 1.0, lambda: 0.0)
    assert [round(longest.fail(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    longest.succeed()
    assert longest.fail() == 0.1
    shortest = Backoff(0.1, 1.0, lambda: 0.999999)
    assert 0.05 <= shortest.fail() < 0.0501
    for _ in range(2000):
        assert longest.fail() <= 1.0
