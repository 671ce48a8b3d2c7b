"""Processes of one port share the slots and the rate of a subscription, whichever of them has the messages."""

from __future__ import annotations

import os
import signal
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.process_group import ProcessGroup
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

ROUNDS = 3


class Pair(NamedTuple):
    """A bus of one process and one of two, and the subscriber of both."""

    one: BusProcess
    two: ProcessGroup
    sink: SubscriberProcess

    def subscribe(self, name: str, **fields: object) -> None:
        for bus, path in ((self.one, f"/one-{name}"), (self.two, f"/two-{name}")):
            bus.admin.destination(name)
            bus.admin.subscription(name, "shop", self.sink.url(path), **fields)

    def seconds(self, name: str, count: int) -> tuple[float, float]:
        """Send messages to one process of each bus; return for how long each delivered them."""
        _, second = self.two.places()[1]
        return (
            _seconds(self.sink, f"/one-{name}", self.one.url, name, count),
            _seconds(self.sink, f"/two-{name}", second, name, count),
        )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with (
        SubscriberProcess(folder, "/one-slots=delay:0.05", "/two-slots=delay:0.05", tally=True) as sink,
        BusProcess(folder / "one") as one,
        ProcessGroup(folder / "two", 2) as two,
    ):
        yield Pair(one, two, sink)


def _seconds(sink: SubscriberProcess, path: str, url: str, destination: str, count: int) -> float:
    sink.reset()
    body = b"".join(b'{"destination":"%s","body":%d}\n' % (destination.encode(), number) for number in range(count))
    headers = {"content-type": "application/x-ndjson"}
    httpx.post(f"{url}/v1/messages", content=body, headers=headers, timeout=30, **PLAIN).raise_for_status()
    wait_until(lambda: sink.count(path) == count, within=60, what="all are delivered", every=0.1)
    _, times = sink.tally(path)
    return max(times) - min(times)


@pytest.mark.parametrize(
    ("name", "count", "fields"),
    [
        pytest.param("slots", 160, {"max_concurrency": 8}, id="slots"),
        pytest.param("rate", 150, {"rate": 75}, id="rate"),
    ],
)
def test_one_process_with_all_the_messages_delivers_them_as_fast_as_a_bus_of_one_process(
    pair: Pair, name: str, count: int, fields: dict[str, object]
) -> None:
    """Half of the slots, or of the rate, would take it twice as long."""
    pair.subscribe(name, **fields)
    ratios = []
    for _ in range(ROUNDS):
        one, two = pair.seconds(name, count)
        ratios.append(two / one)
    print(f"{name}: two processes take {', '.join(f'{ratio:.2f}' for ratio in ratios)} of the time of one")
    assert statistics.median(ratios) < 1.5


@pytest.mark.proof
def test_requests_of_a_process_that_stands_still_keep_their_slots(tmp_path: Path) -> None:
    """The others take it for gone after some seconds; its requests are in flight all the same."""
    with SubscriberProcess(tmp_path, "/held=delay:14") as subscriber, ProcessGroup(tmp_path / "data", 2) as bus:
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "shop", subscriber.url("/held"), max_concurrency=2, timeout_seconds=30)
        (_, first), (frozen, second) = bus.places()[0], bus.places()[1]

        def send(url: str) -> str:
            answer = httpx.post(f"{url}/v1/messages/orders", json={}, timeout=30, **PLAIN)
            return str(answer.raise_for_status().json()["id"])

        def used() -> float:
            return bus.admin.metric('bus_permits_in_use{subscription="orders/shop"}')

        ids = [send(second) for _ in range(2)]
        wait_until(lambda: used() > 0, within=30, what="the first is under way")
        os.kill(frozen, signal.SIGSTOP)
        ids += [send(first) for _ in range(2)]
        wait_until(
            lambda: len(bus.admin.call("GET", "/api/v1/processes").json()["items"]) == 1, within=30, what="it is missed"
        )
        wait_until(lambda: len(subscriber.calls("/held")) > 1, within=30, what="two requests are answered")
        os.kill(frozen, signal.SIGCONT)
        subscriber.configure("/held=delay:0")
        bus.admin.wait_drained("orders", ids, within=60)
        calls = subscriber.calls("/held")
    assert max(call.in_flight for call in calls) == 2
    assert sorted(call.id for call in calls) == sorted(ids)
