"""One receiver sends to a strictly ordered destination, and the daemon goes to it once the configured one names it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bus.client.network.receivers import MOST
from tests.unit.client.world import World, accepted, led, refused, world

Judge = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, sweep_seconds=1000) as made:
        yield made


def leads(here: World, host: str, judge: Judge = accepted) -> None:
    here.elsewhere[host] = lambda lines: httpx.Response(200, json={"results": [judge(line) for line in lines]})


def named(leader: str, destination: str = "strict") -> Judge:
    """The configured receiver, which takes all but what another one sends."""
    return lambda line: led(line, leader) if line["destination"] == destination else accepted(line)


def test_it_goes_to_the_leader_at_once_and_from_then_on(here: World) -> None:
    here.judge = named("http://one:8700")
    leads(here, "one")
    strict, other = here.send("strict"), here.send("other")
    here.work()
    assert here.counts() == (0, 0)
    assert here.hosts == ["receiver", "one"]
    assert here.sent().count(other) == 1
    assert [line["id"] for line in here.requests[1]] == [strict]
    here.send("strict")
    here.send("other")
    here.work()
    assert here.hosts == ["receiver", "one", "receiver", "one"]
    assert all(line["destination"] == "other" for line in here.requests[2])


def test_messages_arrive_in_order_while_the_leader_moves(here: World) -> None:
    got: list[str] = []

    def take(line: dict[str, Any]) -> dict[str, Any]:
        got.append(line["id"])
        return accepted(line)

    here.judge = named("http://one")
    leads(here, "one", take)
    ids = [here.send("strict") for _ in range(5)]
    here.work()
    here.judge = named("http://two")
    leads(here, "one", lambda line: led(line, "http://two"))
    leads(here, "two", take)
    ids += [here.send("strict") for _ in range(5)]
    assert here.work() <= 1.25
    here.time.elapsed += 1.25
    while here.counts() != (0, 0):
        here.time.elapsed += here.work()
    assert got == ids
    assert here.hosts[:5] == ["receiver", "one", "one", "receiver", "two"]


@pytest.mark.parametrize("failing", [lambda _: httpx.Response(502), lambda _: httpx.Response(302), None])
def test_a_leader_that_does_not_answer_is_left_within_two_seconds(here: World, failing: Any) -> None:
    def gone(_: Any) -> httpx.Response:
        raise httpx.ConnectError("gone")

    here.judge = named("http://one")
    here.elsewhere["one"] = failing or gone
    here.send("strict")
    assert here.work() == 1.25
    free = here.send("other")
    here.work()
    assert here.sent()[-1] == free  # nothing else waits for it
    here.judge = accepted
    here.time.elapsed += 1.25
    here.work()
    assert here.counts() == (0, 0)
    assert here.hosts[-1] == "receiver"


def test_for_long_fail_overs_it_is_tried_every_second_or_so(here: World) -> None:
    here.judge = led
    for _ in range(100):
        here.send("strict")
    for _ in range(40):
        assert here.work() <= 1.25
        here.time.elapsed += 1.25
    assert len(here.requests[-1]) == 1  # one line finds out whether there is a leader
    here.judge = accepted
    here.work()
    assert here.counts() == (0, 0)


def test_receivers_that_name_each_other_are_not_asked_without_end(here: World) -> None:
    here.judge = named("http://one")
    leads(here, "one", lambda line: led(line, "http://receiver"))
    here.send("strict")
    assert here.work() == 1.25
    assert here.hosts == ["receiver", "one"]


def test_only_the_configured_receiver_says_who_leads(here: World) -> None:
    here.judge = named("http://one")
    leads(here, "one", lambda line: led(line, "http://thief"))
    leads(here, "thief")
    here.send("strict")
    for _ in range(5):
        here.work()
        here.time.elapsed += 2
    assert "thief" not in here.hosts


@pytest.mark.parametrize(
    "leader", ["", "one:8700", "ftp://one", "http://", "http://a:b@one", "http://[", "http://receiver/", "http:one"]
)
def test_what_is_no_address_of_a_receiver_is_not_followed(here: World, leader: str) -> None:
    here.judge = named(leader)
    here.send("strict")
    assert here.work() == 1.25
    assert here.hosts == ["receiver"]
    assert here.counts() == (1, 0)


def test_a_key_that_goes_over_https_goes_nowhere_without(tmp_path: Path) -> None:
    with world(tmp_path, sweep_seconds=1000, url="https://receiver") as here:
        here.judge = named("http://one")
        here.send("strict")
        here.work()
        assert here.hosts == ["receiver"]


def test_the_leader_is_sent_to_while_the_configured_receiver_is_away(here: World) -> None:
    here.judge = named("http://one")
    leads(here, "one")
    here.send("strict")
    here.work()
    here.answer = lambda _: httpx.Response(503)
    here.send("other")
    here.work()
    strict = here.send("strict")
    assert here.work() <= 1
    assert here.sent()[-1] == strict
    assert here.counts() == (1, 0)


def test_a_line_that_is_the_cause_of_a_failure_is_found_at_the_leader_too(here: World) -> None:
    here.judge = named("http://one")
    leads(here, "one")
    here.send("strict")
    here.work()
    bad = here.send("strict")

    def judge(lines: list[dict[str, Any]]) -> httpx.Response:
        if any(line["id"] == bad for line in lines):
            return httpx.Response(500)
        return httpx.Response(200, json={"results": [accepted(line) for line in lines]})

    here.elsewhere["one"] = judge
    for _ in range(3):
        here.send("strict")
    here.work()
    assert here.counts()[0] == 1  # it delays no other


def test_few_connections_are_kept(here: World) -> None:
    for number in range(20):
        leads(here, f"host-{number}")
        here.send(f"strict-{number}")
    here.judge = lambda line: led(line, f"http://host-{line['destination'].removeprefix('strict-')}")
    here.work()
    assert here.counts() == (0, 0)
    assert len(here.daemon._receivers._clients) <= MOST


def test_what_the_leader_refuses_is_refused(here: World) -> None:
    here.judge = named("http://one")
    leads(here, "one", lambda line: refused(line, 409))
    here.send("strict")
    here.work()
    assert here.counts() == (0, 1)


def test_what_is_sent_alone_does_not_wait_for_plain_messages(here: World) -> None:
    here.judge = lambda line: accepted(line) if line.get("producer") == 7 else refused(line, 503)
    here.send("strict")
    here.work()
    alone = here.send("strict", producer=7)
    here.work()
    assert here.sent()[-1] == alone
    assert here.counts() == (1, 0)
