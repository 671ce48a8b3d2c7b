"""Messages of archive and store are sent again as copies: each once, as it was, wherever the sending was broken off."""

import hashlib
import threading
from collections import defaultdict
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bus.clock import SystemClock
from bus.domain.times import format_time
from bus.errors import ConfigurationError
from pipeline.commands.archiving import archive
from pipeline.commands.replaying import ReplayOptions, replay
from pipeline.jobs import resending
from pipeline.jobs.replay import Balance, ReplaySelection, balance, known
from pipeline.lake.storage import Storage
from tests.harness.archived_bus import Place
from tests.harness.bus_process import run_bus
from tests.harness.old_messages import made
from tests.harness.waiting import wait_until

COUNT = 40


def options(place: Place, where: str | None, name: str = "again-1", **changes: Any) -> ReplayOptions:
    asked = ReplaySelection(where, place.store) if where is not None else None
    return ReplayOptions(name, place.lake.storage.root, asked, place.store, 1000, place.bus.url, "")._replace(**changes)


def settled(spark: SparkSession, place: Place, accepted: int, name: str = "again-1") -> Balance:
    """Return the balance once nothing of it is open."""
    manifest = known(place.lake, name)
    place.bus.admin.wait_drained("orders", [], within=60)
    found: list[Balance] = []

    def closed() -> bool:
        found.append(balance(spark, place.lake, manifest, place.store, accepted))
        return not (found[-1].unknown or found[-1].open)

    wait_until(closed, within=60, what="every copy is delivered", every=1, state=lambda: str(found[-1:]))
    return found[-1]


def test_what_was_archived_and_dropped_comes_again_byte_for_byte(spark: SparkSession, place: Place) -> None:
    old, young = made(COUNT, 20, SystemClock().now()), made(5, 2, SystemClock().now())
    place.deliver(old + young)
    assert [each.state for each in archive(spark, place.options)] == ["dropped"]
    place.subscriber.reset()
    before = {call.id for call in place.subscriber.calls()}
    where = "destination = 'orders' and biz_id like 'A-%' and key <> 'k4'"
    chosen = [each for each in old + young if each.key != "k4"]
    assert replay(spark, options(place, where, dry_run=True)) == {"replay": "again-1", "selected": len(chosen)}
    told = replay(spark, options(place, where))
    assert (told["selected"], told["accepted"], told["rejected"]) == (len(chosen), len(chosen), 0)
    assert settled(spark, place, len(chosen)) == Balance(0, 0, len(chosen), 0, 0)
    calls = [call for call in place.subscriber.calls() if call.id not in before]
    assert sorted(call.sha256 for call in calls) == sorted(hashlib.sha256(each.body).hexdigest() for each in chosen)
    assert {call.content_type for call in calls} == {"application/x-test"}
    trace = place.bus.admin.trace(calls[0].id)
    assert trace["replay"]["name"] == "again-1"
    original = {each.id: each for each in chosen}[trace["replay"]["of"]]
    assert hashlib.sha256(place.bus.admin.body(calls[0].id)).hexdigest() == hashlib.sha256(original.body).hexdigest()
    assert trace["message"]["headers"] == {"x-place": original.biz_id}
    shown = run_bus("trace", calls[0].id, env={"BUS_URL": place.bus.url})
    assert f"copy of  {original.id}  by replay again-1" in shown.stdout
    again = replay(spark, options(place, None))  # told once more, and nothing sent
    assert (again["accepted"], again["delivered"], again["unknown"]) == (len(chosen), len(chosen), 0)
    assert again["balanced"] is True
    assert len(place.subscriber.calls()) == len(before) + len(chosen)


def test_a_replay_that_was_broken_off_goes_on_and_sends_nothing_twice(
    spark: SparkSession, embedded: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = made(COUNT, 20, SystemClock().now())
    embedded.deliver(old)
    embedded.bus.admin.subscription("orders", "s", embedded.subscriber.url("/s"), max_concurrency=1)
    write, batches = Storage.write, threading.Event()

    def write_until_killed(self: Storage, path: str, content: bytes) -> None:
        """End after the second batch was taken, before that is written down."""
        if path.startswith("_replays") and batches.is_set():
            raise KeyboardInterrupt
        if path.startswith("_replays"):
            batches.set()
        write(self, path, content)

    monkeypatch.setattr(Storage, "write", write_until_killed)
    with pytest.raises(KeyboardInterrupt):
        replay(spark, options(embedded, "true", rate=10))
    monkeypatch.undo()
    assert resending.sending_of(embedded.lake.storage, "again-1").accepted == 10
    told = replay(spark, options(embedded, None))
    assert (told["accepted"], told["rejected"]) == (COUNT, 0)
    assert settled(spark, embedded, COUNT) == Balance(0, 0, COUNT, 0, 0)
    ids = {each.id for each in old}
    calls = [call for call in embedded.subscriber.calls() if call.id not in ids]
    assert len({call.id for call in calls}) == COUNT
    order: defaultdict[str, list[int]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: call.t):
        order[call.key].append(int(call.biz_id.removeprefix("A-")))
    assert all(numbers == sorted(numbers) for numbers in order.values())


@pytest.mark.proof
def test_copies_go_into_another_destination_and_nowhere_else(spark: SparkSession, embedded: Place) -> None:
    old = made(6, 20, SystemClock().now())
    embedded.deliver(old)
    admin = embedded.bus.admin
    admin.destination("orders-for-shop")
    admin.subscription("orders-for-shop", "shop", embedded.subscriber.url("/shop"))
    asked = ReplaySelection("biz_id <> 'A-0'", embedded.store, into="orders-for-shop")
    told = replay(spark, options(embedded, None, asked=asked))
    assert (told["selected"], told["accepted"]) == (5, 5)
    assert settled(spark, embedded, 5) == Balance(0, 0, 5, 0, 0)
    calls = embedded.subscriber.calls("/shop")
    assert sorted(call.sha256 for call in calls) == sorted(hashlib.sha256(each.body).hexdigest() for each in old[1:])
    assert {call.destination for call in calls} == {"orders-for-shop"}
    assert {admin.trace(call.id)["replay"]["of"] for call in calls} == {each.id for each in old[1:]}
    assert len(embedded.subscriber.calls("/s")) == len(old)
    with pytest.raises(ConfigurationError, match="frozen with --into orders-for-shop"):
        replay(spark, options(embedded, "biz_id <> 'A-0'"))
    again = replay(spark, options(embedded, None))
    assert (again["accepted"], again["delivered"]) == (5, 5)


@pytest.mark.proof
def test_a_copy_of_what_waits_for_its_time_waits_as_long(spark: SparkSession, embedded: Place) -> None:
    admin, due = embedded.bus.admin, format_time(SystemClock().now() + 3_600_000)
    admin.destination("orders")
    admin.subscription("orders", "s", embedded.subscriber.url("/s"))
    admin.send("orders", b"later", **{"bus-deliver-at": due}).raise_for_status()
    wait_until(lambda: any(admin.messages(destination="orders")), within=30, what="it is stored")
    assert replay(spark, options(embedded, "true"))["accepted"] == 1
    wait_until(lambda: len([*admin.messages(destination="orders")]) == 2, within=30, what="the copy is stored")
    traces = [admin.trace(each["id"]) for each in admin.messages(destination="orders")]
    assert [trace["message"]["deliver_at"] for trace in traces] == [due, due]
    assert len([trace for trace in traces if trace["replay"]]) == 1
    assert embedded.subscriber.calls() == []


@pytest.mark.proof
def test_rejected_messages_are_in_the_balance(spark: SparkSession, embedded: Place) -> None:
    old = made(6, 20, SystemClock().now(), ("orders", "bills"))
    embedded.deliver(old)
    answer = embedded.bus.admin.call("DELETE", "/api/v1/destinations/bills/subscriptions/s")
    assert answer.is_success
    assert embedded.bus.admin.call("DELETE", "/api/v1/destinations/bills").is_success
    told = replay(spark, options(embedded, "true"))
    assert (told["selected"], told["accepted"], told["rejected"]) == (6, 3, 3)
    assert set(told["rejections"]) == {each.id for each in old if each.destination == "bills"}


@pytest.mark.proof
def test_a_name_stands_for_one_selection(spark: SparkSession, embedded: Place) -> None:
    embedded.deliver(made(2, 20, SystemClock().now()))
    for where in ("no such thing", "column_that_is_not = 1", "biz_id = 'nobody'"):
        with pytest.raises(ConfigurationError):
            replay(spark, options(embedded, where))
    with pytest.raises(ConfigurationError, match="there is no replay"):
        replay(spark, options(embedded, None))
    replay(spark, options(embedded, "true", store=None))
    with pytest.raises(ConfigurationError, match="was frozen with --store"):
        replay(spark, options(embedded, None, asked=ReplaySelection("true")))
    with pytest.raises(ConfigurationError, match="was frozen with --where true"):
        replay(spark, options(embedded, "biz_id = 'A-0'"))
