"""Several processes of one bus on one port: one bus to whoever looks, and any of them may die."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FuturesTimeout
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from bus.domain.identity import new_id
from bus.domain.tracing.events import Stage
from tests.harness import trace_events
from tests.harness.bus_process import BusProcess
from tests.harness.http import PLAIN
from tests.harness.kills import KillRun, Plan
from tests.harness.process_group import ProcessGroup
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

MOST = 3
SMALL = Plan(messages=300, rate=100, kills=3, seed=20261125, max_concurrency=MOST, stuck_after="5s")
FULL = Plan(
    messages=20_000, rate=200, kills=50, seed=20261125, max_concurrency=MOST, stuck_after="5s", drain_within=300
)


@pytest.mark.parametrize(
    ("plan", "count"),
    [
        pytest.param(SMALL, 2, id="small"),
        pytest.param(FULL, 4, id="full", marks=[pytest.mark.proof, pytest.mark.timeout(1800)]),
    ],
)
def test_nothing_is_lost_and_no_permit_doubled_when_processes_are_killed(
    tmp_path: Path, plan: Plan, count: int
) -> None:
    run = KillRun(tmp_path, plan, processes=count)
    found = run.run()
    print(found.figures())
    assert found.passed, found.complaints
    for path in ("/fast", "/slow", "/flaky"):
        assert max(call.in_flight for call in run.subscriber.calls(path)) <= MOST


@pytest.mark.proof
@pytest.mark.timeout(1800)
def test_permits_hold_while_processes_are_killed_and_every_one_of_them_has_work(tmp_path: Path) -> None:
    limits = {"/one": 1, "/three": 3, "/nine": 9}  # each of these takes 45 messages a second
    with SubscriberProcess(tmp_path) as subscriber, ProcessGroup(tmp_path / "data", 4) as bus:
        bus.admin.destination("orders")
        for path, most in limits.items():
            subscriber.configure(f"{path}=delay:{most / 45}")
            bus.admin.subscription("orders", path[1:], subscriber.url(path), max_concurrency=most)
        ids: list[str] = []
        over = threading.Event()

        def send() -> None:
            while not over.is_set():
                with suppress(httpx.TransportError):  # of a process that was killed meanwhile
                    ids.append(_send_anew(bus).json()["id"])
                over.wait(0.2)

        with ThreadPoolExecutor(8) as pool:
            sending = [pool.submit(send) for _ in range(8)]
            try:
                for kill in range(100):
                    bus.kill_one(kill % 4)
                    bus.start(within=60)
            finally:
                over.set()
            for one in sending:
                one.result()
        bus.admin.wait_drained("orders", ids, within=300)
        peaks = {path: max(call.in_flight for call in subscriber.calls(path)) for path in limits}
        got = {path: Counter(call.id for call in subscriber.calls(path)) for path in limits}
    repeated = {path: sum(count - 1 for count in found.values()) for path, found in got.items()}
    print(f"100 kills, {len(ids)} messages, most in flight {peaks}, repeated {repeated}")
    assert all(1 < peaks[path] <= most or peaks[path] == most for path, most in limits.items())
    assert all(set(ids) <= found.keys() for found in got.values())


@pytest.fixture(scope="module")
def subscriber(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubscriberProcess]:
    with SubscriberProcess(tmp_path_factory.mktemp("subscriber")) as started:
        yield started


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, subscriber: SubscriberProcess) -> Iterator[ProcessGroup]:
    with ProcessGroup(tmp_path_factory.mktemp("group") / "data", 2) as bus:
        bus.admin.destination("orders")
        bus.admin.subscription("orders", "shop", subscriber.url("/shop"), max_concurrency=8)
        yield bus


def _send_anew(bus: BusProcess, body: bytes = b"{}", timeout: float = 30) -> httpx.Response:
    """Send over a connection of its own, which any of the processes may get."""
    headers = {"content-type": "application/json"}
    return httpx.post(f"{bus.url}/v1/messages/orders", content=body, headers=headers, timeout=timeout, **PLAIN)


def _post(url: str) -> httpx.Response:
    return httpx.post(f"{url}/v1/messages/orders", json={}, timeout=30, **PLAIN)


def _accepted(text: str) -> float:
    lines = [line for line in text.splitlines() if line.startswith("bus_messages_accepted_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_every_process_takes_messages_and_one_admin_shows_all_of_them(
    group: ProcessGroup, subscriber: SubscriberProcess
) -> None:
    def of_each() -> list[float]:
        texts = [httpx.get(f"{url}/metrics", timeout=30, **PLAIN).text for _, url in group.places().values()]
        return [_accepted(text) for text in texts[1:]]

    sent: list[str] = []

    def all_took_some() -> bool:
        sent.append(_send_anew(group).json()["id"])
        return min(of_each()) > 0

    wait_until(all_took_some, within=30, what="each process has taken a message", every=0)
    group.admin.wait_drained("orders", sent, within=30)
    assert {call.id for call in subscriber.calls("/shop")} >= set(sent)
    assert {row["id"] for row in group.admin.messages(destination="orders")} >= set(sent)
    wait_until(lambda: _accepted(group.admin.metrics()) == len(sent), within=10, what="the metrics are those of all")
    wait_until(
        lambda: (
            set(sent) <= trace_events.ids(trace_events.told(trace_events.blocks(group.data), Stage.ACCEPTED)).keys()
        ),
        within=30,
        what="the events of all are in one place",
    )
    processes = group.admin.call("GET", "/api/v1/processes").json()["items"]
    assert sorted(len(one["roles"]) for one in processes) == [3, 5]


def test_what_is_sent_again_to_another_process_is_recognised(
    group: ProcessGroup, subscriber: SubscriberProcess
) -> None:
    def send(body: bytes = b"{}", **headers: str) -> httpx.Response:
        named = {"content-type": "application/json"} | {name.replace("_", "-"): said for name, said in headers.items()}
        return httpx.post(f"{group.url}/v1/messages/orders", content=body, headers=named, timeout=30, **PLAIN)

    ids = [new_id(time.time_ns() // 1_000_000) for _ in range(10)]
    for one in ids:
        answers = [send(bus_message_id=one) for _ in range(6)]
        assert [answer.json()["duplicate"] for answer in answers] == [False, *[True] * 5]
        assert {send(b"[]", bus_message_id=one).status_code for _ in range(4)} == {409}
    with ThreadPoolExecutor(4) as pool:
        for key in range(10):
            answers = list(pool.map(lambda key: send(idempotency_key=f"key {key}"), [key] * 4))
            assert len({answer.json()["id"] for answer in answers}) == 1
            assert sorted(answer.json()["duplicate"] for answer in answers) == [False, True, True, True]
    group.admin.wait_drained("orders", ids, within=30)
    delivered = Counter(call.id for call in subscriber.calls("/shop"))
    assert {one: delivered[one] for one in ids} == dict.fromkeys(ids, 1)


def test_one_permit_is_for_the_process_that_has_the_message(group: ProcessGroup, subscriber: SubscriberProcess) -> None:
    group.admin.subscription("orders", "scarce", subscriber.url("/scarce"), max_concurrency=1)
    before = _accepted_by_second(group)
    ids = [_send_anew(group).json()["id"] for _ in range(20)]
    group.admin.wait_drained("orders", ids, within=30)
    deliveries = [delivery for one in ids for delivery in group.admin.trace(one)["deliveries"]]
    nodes = [
        attempt["node"]
        for delivery in deliveries
        if delivery["subscription"] == "scarce"
        for attempt in delivery["attempts"]
    ]
    assert len(nodes) == len(ids)
    assert sum(node.endswith(".1") for node in nodes) == _accepted_by_second(group) - before
    assert max(call.in_flight for call in subscriber.calls("/scarce")) == 1


def _in_flight(group: ProcessGroup, subscription: str) -> float:
    begin = f'bus_permits_in_use{{subscription="orders/{subscription}"}}'
    return sum(float(line.split()[-1]) for line in group.admin.metrics().splitlines() if line.startswith(begin))


def _accepted_by_second(group: ProcessGroup) -> float:
    return _accepted(httpx.get(f"{group.places()[1][1]}/metrics", timeout=30, **PLAIN).text)


def test_pages_and_admin_are_served_whoever_accepts_the_connection(group: ProcessGroup) -> None:
    for path in ("/admin", "/api/v1/destinations", "/metrics", "/readyz", "/openapi.json"):
        answers = [httpx.get(f"{group.url}{path}", timeout=30, follow_redirects=True, **PLAIN) for _ in range(6)]
        assert [answer.status_code for answer in answers] == [200] * 6, path


def test_one_connection_may_ask_for_both(group: ProcessGroup) -> None:
    for _ in range(6):
        with httpx.Client(base_url=group.url, timeout=30, **PLAIN) as client:
            for _ in range(2):
                assert client.post("/v1/messages/orders", json={}).status_code == 202
                assert client.get("/api/v1/destinations").status_code == 200


def test_a_process_that_is_killed_is_back_and_no_connection_is_refused(group: ProcessGroup) -> None:
    for number in (1, 0):
        before = group.places()[number][0]
        os.kill(before, signal.SIGKILL)
        # Those that come to its socket meanwhile wait there.
        assert {_send_anew(group).status_code for _ in range(20)} == {202}
        group.start(within=10)
        assert group.places()[number][0] != before


def test_a_process_that_stood_still_accepts_nothing_before_it_knows_what_was_changed(
    group: ProcessGroup, subscriber: SubscriberProcess
) -> None:
    pid, url = group.places()[1]
    with ThreadPoolExecutor(9) as pool:
        for number in itertools.count():
            name = f"added-{number}"
            os.kill(pid, signal.SIGSTOP)
            try:
                changing = pool.submit(group.admin.subscription, "orders", name, subscriber.url("/added"))
                with suppress(FuturesTimeout):
                    changing.result(timeout=10)
                    sending = [pool.submit(_post, url) for _ in range(8)]
                    break
            finally:
                os.kill(pid, signal.SIGCONT)
            changing.result()  # it stood still with a lock of the store
        ids = [one.result().json()["id"] for one in sending]
    group.admin.wait_drained("orders", ids, within=30)
    deliveries = [{one["subscription"] for one in group.admin.trace(sent)["deliveries"]} for sent in ids]
    assert all(name in names for names in deliveries)


def test_what_the_metrics_count_never_goes_back_but_with_who_tells_them(group: ProcessGroup) -> None:
    for _, url in group.places().values():
        httpx.post(f"{url}/v1/messages/orders", json={}, timeout=30, **PLAIN).raise_for_status()
    before = _accepted(group.admin.metrics())
    assert before >= 2
    group.kill_one(1)
    assert _accepted(group.admin.metrics()) == before
    group.start(within=20)
    httpx.post(f"{group.places()[1][1]}/v1/messages/orders", json={}, timeout=30, **PLAIN).raise_for_status()
    wait_until(lambda: _accepted(group.admin.metrics()) == before + 1, within=10, what="the new one counts on")


def _are_replaced(group: ProcessGroup, before: set[int]) -> bool:
    now = {pid for pid, _ in group.places().values()}
    return len(now) == group.count and not before & now


def test_a_hangup_replaces_all_processes_one_by_one(group: ProcessGroup, subscriber: SubscriberProcess) -> None:
    before = {pid for pid, _ in group.places().values()}
    ids: list[str] = []
    over = threading.Event()

    def send() -> None:
        while not over.is_set():
            answer = _send_anew(group)
            assert answer.status_code == 202, answer.text
            ids.append(answer.json()["id"])

    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        try:
            os.kill(group.pid, signal.SIGHUP)
            wait_until(lambda: _are_replaced(group, before), within=60, what="all were replaced")
        finally:
            over.set()
    sending.result()
    group.start()
    group.admin.wait_drained("orders", ids, within=30)
    assert {call.id for call in subscriber.calls("/shop")} >= set(ids)


def test_what_comes_while_one_waits_for_a_slow_subscriber_does_not_wait(group: ProcessGroup, tmp_path: Path) -> None:
    with SubscriberProcess(tmp_path) as slow:
        slow.configure("/slow=hang")
        group.admin.subscription("orders", "slow", slow.url("/slow"), timeout_seconds=300)
        before = group.places()
        for _, url in before.values():
            httpx.post(f"{url}/v1/messages/orders", json={}, timeout=30, **PLAIN).raise_for_status()
        wait_until(lambda: _in_flight(group, "slow") >= len(before), within=20, what="both wait for the subscriber")
        os.kill(group.pid, signal.SIGHUP)
        wait_until(lambda: "stopping" in group.child.output(), within=20, what="the first is stopping")
        ids = [_send_anew(group, timeout=10).json()["id"] for _ in range(30)]
        assert group.places() == before
    group.admin.call("DELETE", "/api/v1/destinations/orders/subscriptions/slow")
    wait_until(lambda: _are_replaced(group, {pid for pid, _ in before.values()}), within=60, what="all were replaced")
    group.start()
    group.admin.wait_drained("orders", ids, within=30)


def test_what_waits_goes_on_with_another_number_of_processes(tmp_path: Path, subscriber: SubscriberProcess) -> None:
    with ProcessGroup(tmp_path / "data", 3) as many:
        many.admin.destination("orders")
        many.admin.subscription("orders", "later", subscriber.url("/later"), paused=True)
        ids = [_send_anew(many).json()["id"] for _ in range(60)]
        assert many.stop() == 0
    with BusProcess(tmp_path / "data", log=tmp_path / "one.log") as one:
        assert not list((tmp_path / "data").glob("p*/journal"))
        one.admin.pause("orders", "later", paused=False)
        one.admin.wait_drained("orders", ids, within=30)
    assert {call.id for call in subscriber.calls("/later")} >= set(ids)
