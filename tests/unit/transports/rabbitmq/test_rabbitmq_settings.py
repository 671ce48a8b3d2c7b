"""URLs of clusters, names on the broker, and the order in which addresses are tried."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bus.errors import ConfigurationError
from bus.testing.clock import ManualClock
from bus.transports.rabbitmq import parse_cluster
from bus.transports.rabbitmq.addresses import Address, Addresses
from bus.transports.rabbitmq.config import ClusterUrl, Host
from bus.transports.rabbitmq.names import Lane, lane_of, queue_of

SETTING = "BUS_RABBITMQ_PRIMARY"
CODES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", fullmatch=True)
NAMES = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amqp://h", ClusterUrl("guest", "guest", (Host("h", 5672),), "/", False, {})),
        ("amqp://u:p@h:1/", ClusterUrl("u", "p", (Host("h", 1),), "/", False, {})),
        (
            "amqp://u:p%40%2F@h1:5673,h2,[::1]:5674/bus",
            ClusterUrl("u", "p@/", (Host("h1", 5673), Host("h2", 5672), Host("::1", 5674)), "bus", False, {}),
        ),
        (
            "amqps://u@h/%2Fteam?cafile=/ca.pem",
            ClusterUrl("u", "guest", (Host("h", 5671),), "/team", True, {"cafile": "/ca.pem"}),
        ),
        ("amqp://:@h", ClusterUrl("guest", "", (Host("h", 5672),), "/", False, {})),
    ],
)
def test_urls(text: str, expected: ClusterUrl) -> None:
    assert parse_cluster(text, SETTING) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h:5672",
        "http://u:secret@h",
        "amqp://u:secret@/vhost",
        "amqp://u:secret@h:0/",
        "amqp://u:secret@h:65536/",
        "amqp://u:secret@h:port/",
        "amqp://u:secret@h,,h2/",
        "amqp://u:secret@::1:5672/",
        "amqp://u:secret@h/a/b",
        "amqp://u:secret@h/?heartbeat=0",
    ],
)
def test_a_url_that_cannot_be_is_refused_without_showing_its_password(text: str) -> None:
    with pytest.raises(ConfigurationError, match=SETTING) as refused:
        parse_cluster(text, SETTING)
    assert "secret" not in str(refused.value) + refused.value.hint


@given(CODES, NAMES)
def test_names_are_reversible_and_short_enough(code: str, name: str) -> None:
    lane = Lane(code, name)
    assert lane_of(queue_of(lane)) == lane
    assert len(queue_of(lane).encode()) <= 255


@pytest.mark.parametrize("queue", ["", "pier", "pier/a", "pier//b", "pier/a/", "other/a/b", "pier/a/b/c", "pier.a/b"])
def test_queues_of_others_are_no_lanes(queue: str) -> None:
    assert lane_of(queue) is None


def addresses(clock: ManualClock, answers: dict[str, Sequence[str]], *names: str) -> Addresses:
    async def lookup(name: str, port: int) -> Sequence[str]:
        if name not in answers:
            raise OSError(f"{name} is unknown")
        return answers[name]

    noise = random.Random(1).random
    return Addresses([Host(name, 5672) for name in names], clock, noise, within=1.0, lookup=lookup)


async def test_every_address_of_every_host_is_tried_in_any_order() -> None:
    found = addresses(ManualClock(), {"a": ["10.0.0.1", "10.0.0.2"], "b": ["10.0.0.3", "10.0.0.3"]}, "a", "b", "c")
    expected = {Address("a", "10.0.0.1", 5672), Address("a", "10.0.0.2", 5672), Address("b", "10.0.0.3", 5672)}
    orders = {tuple(await found.candidates()) for _ in range(50)}
    assert all(len(order) == 3 and set(order) == expected for order in orders)
    assert len(orders) == 6


async def test_addresses_need_no_lookup() -> None:
    found = addresses(ManualClock(), {}, "127.0.0.1", "::1")
    assert {address.ip for address in await found.candidates()} == {"127.0.0.1", "::1"}


async def test_names_are_looked_up_anew_each_time() -> None:
    answers = {"a": ["10.0.0.1"]}
    found = addresses(ManualClock(), answers, "a")
    await found.candidates()
    answers["a"] = ["10.0.0.9"]
    assert [address.ip for address in await found.candidates()] == ["10.0.0.9"]


async def test_an_address_that_failed_comes_last_for_a_while() -> None:
    clock = ManualClock()
    found = addresses(clock, {"a": ["10.0.0.1", "10.0.0.2", "10.0.0.3"]}, "a")
    bad = Address("a", "10.0.0.2", 5672)
    found.failed(bad)
    assert all([(await found.candidates())[-1] == bad for _ in range(30)])
    found.worked(bad)
    assert not all([(await found.candidates())[-1] == bad for _ in range(30)])
    found.failed(bad)
    await clock.advance(60.0)
    assert not all([(await found.candidates())[-1] == bad for _ in range(30)])


async def test_hosts_without_an_address_leave_nothing_to_try() -> None:
    assert await addresses(ManualClock(), {}, "a", "b").candidates() == []
