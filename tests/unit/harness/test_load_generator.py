"""The load generator sends each message once, with its number, in bodies of the size asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.load import FIRST_SEQ, Plan
from bench.report import Row, against_limit
from bench.sending import Arrivals, Sending, percentile
from tests.harness.subscribers import SubscriberProcess


def plan(count: int, batch: int) -> Plan:
    return Plan("127.0.0.1", 80, "/p", count, 1024, batch, "d", FIRST_SEQ)


def bodies(request: bytes) -> bytes:
    head, _, body = request.partition(b"\r\n\r\n")
    assert int(head.rpartition(b"content-length: ")[2]) == len(body)
    return body


def test_a_body_is_json_of_its_size() -> None:
    start, size, request = plan(1, 1).take()
    body = bodies(request)
    assert (start, size, len(body)) == (0, 1, 1024)
    assert json.loads(body)["seq"] == FIRST_SEQ


def test_a_batch_has_a_line_for_each_message() -> None:
    work = plan(100, 64)
    first, second = work.take(), work.take()
    lines = [json.loads(line) for line in bodies(first[2]).splitlines()]
    assert [line["body"]["seq"] for line in lines] == list(range(FIRST_SEQ, FIRST_SEQ + 64))
    assert {line["destination"] for line in lines} == {"d"}
    assert second[:2] == (64, 36)
    assert work.exhausted


@pytest.mark.parametrize("options", [{}, {"rate": 500}])
def test_each_message_arrives_once_and_is_timed(tmp_path: Path, options: dict[str, int]) -> None:
    with SubscriberProcess(tmp_path, tally=True) as sink:
        sent = Sending(sink.url("/a"), 300, **options).result()
        arrivals = Arrivals(sink, "/a")
    assert sent.summary["accepted"] == 300
    assert sent.accepted == arrivals.first.keys()
    assert arrivals.repeated == 0
    latencies = arrivals.latencies(sent)
    assert len(latencies) == 300
    assert 0 < percentile(latencies, 0.5) <= percentile(latencies, 0.99) < 1000


def test_a_row_compares_round_by_round() -> None:
    row = Row("s", "f", [10, 30, 20], "/s", "nsq", [10, 10, 10], target=1.5)
    assert (row.value, row.reference, row.ratio, row.met) == (20, 10, 2.0, True)
    over = against_limit("s", "f", [500.0], "MiB", 400.0)
    assert over.met is False
    assert Row("s", "f", [1], "/s", "x", [2]).met is None
