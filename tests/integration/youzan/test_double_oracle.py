"""Youzan's own client on the double: what it published in order and traced it gets so, whatever happens."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.youzan.running import YouzanDouble
from tests.harness.process import Child
from tests.harness.waiting import wait_until

COUNT, KEYS, PARTITIONS = 300, 10, 4
Lines = list[dict[str, Any]]


def lines(child: Child) -> Lines:
    """Return what the oracle printed of messages."""
    printed = child.log.read_text().splitlines() if child.log.exists() else []
    return [json.loads(line) for line in printed if line.startswith("{") and line.endswith("}")]


@contextmanager
def running(double: YouzanDouble, oracle: Path, log: Path, *arguments: object) -> Iterator[Child]:
    fixed = ["-lookups", ",".join(double.lookups), "-topic", "orders", "-count", COUNT, "-keys", KEYS]
    with Child([str(oracle), *map(str, (*fixed, *arguments))], log=log) as child:
        yield child


def by_key(found: Lines) -> dict[str, list[int]]:
    """Return the numbers of each key as they came, without what came again."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for line in found:
        if line["number"] not in numbers[line["key"]]:
            numbers[line["key"]].append(line["number"])
    return numbers


def first_of(found: Lines) -> dict[int, tuple[int, ...]]:
    """Return where each message is, by its number."""
    return {line["number"]: tuple(line[part] for part in ("trace", "id", "offset", "size")) for line in found}


@pytest.mark.parametrize("extended", [False, True])
def test_the_client_gets_what_it_published(own: YouzanDouble, oracle: Path, tmp_path: Path, extended: bool) -> None:
    own.create_topic("orders", partitions=PARTITIONS, replicas=2, ordered=True, extended=extended)
    own.create_channel("orders", "billing")
    options = ["-extended"] if extended else []
    with (
        running(own, oracle, tmp_path / "consumed", "-channel", "billing", *options) as consumer,
        running(own, oracle, tmp_path / "published", *options) as producer,
    ):
        assert (producer.wait(15), consumer.wait(15)) == (0, 0), producer.output() + consumer.output()
        published, consumed = lines(producer), lines(consumer)
    assert len(consumed) == COUNT
    assert first_of(consumed) == first_of(published)
    assert by_key(consumed) == by_key(published)
    assert len({line["partition"] for line in consumed}) > 1
    if extended:
        assert [line["trace"] for line in published] == list(range(1, COUNT + 1))
        assert {line["ext"] for line in consumed} == {
            f'{{"##trace_id":"{trace}","origin":"oracle"}}' for trace in range(1, COUNT + 1)
        }
    asked = [one["query"] for one in own.asked(1, "/lookup") + own.asked(2, "/lookup")]
    assert {"topic": "orders", "access": "w", "metainfo": "true"} in asked


def test_nothing_is_lost_and_each_key_keeps_its_order_while_partitions_move(
    own: YouzanDouble, oracle: Path, tmp_path: Path
) -> None:
    own.create_topic("orders", partitions=PARTITIONS, replicas=2, ordered=True)
    own.create_channel("orders", "billing")
    with (
        running(own, oracle, tmp_path / "consumed", "-channel", "billing") as consumer,
        running(own, oracle, tmp_path / "published", "-pace", "10ms") as producer,
    ):

        def reached(published: int) -> None:
            wait_until(lambda: len(lines(producer)) >= published, within=20, what="messages", state=producer.output)

        reached(50)
        busiest = lines(producer)[-1]["id"] >> 50
        own.move_leader("orders", busiest, 3 - own.leader("orders", busiest))
        reached(100)
        own.set_writable("orders", busiest, writable=False)
        # A client that looked up just then is told of the others alone, and has nothing refused.
        wait_until(
            lambda: _refused(own, "E_FAILED_ON_NOT_WRITABLE") or len(lines(producer)) >= 150,
            within=20,
            what="a write is refused, or others go on",
        )
        own.set_writable("orders", busiest, writable=True)
        assert (producer.wait(20), consumer.wait(20)) == (0, 0), producer.output() + consumer.output()
        published, consumed = lines(producer), lines(consumer)
    assert _refused(own, "E_FAILED_ON_NOT_LEADER")
    assert {line["number"] for line in consumed} == set(range(COUNT))
    assert {key: sorted(numbers) for key, numbers in by_key(published).items()} == by_key(consumed)
    assert first_of(consumed).items() >= first_of(published).items()


def _refused(double: YouzanDouble, code: str) -> bool:
    return any(double.counters(nsqd).get(code) for nsqd in double.nsqds)
