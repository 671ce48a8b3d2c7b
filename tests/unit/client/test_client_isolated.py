"""Answers to one record never stop another: repeated identities, and answers outside the receiver's contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from bus.client.sending.isolated_records import MOST
from bus.domain.identity import new_id
from tests.unit.client.world import START, World, accepted, world

FIRST = new_id(START)
Answer = Callable[[list[dict[str, Any]]], httpx.Response]


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, sweep_seconds=1000) as made:
        yield made


def breaks(here: World, poison: str, answer: Answer) -> Answer:
    """Return an answer that fails each request with one message, and takes all else."""
    return lambda lines: answer(lines) if any(line["id"] == poison for line in lines) else here.judged(lines)


def garbage(content: bytes, status: int = 200) -> Answer:
    return lambda _: httpx.Response(status, content=content)


def taken_as_other(lines: list[dict[str, Any]]) -> httpx.Response:
    return httpx.Response(200, json={"results": [{"id": FIRST, "status": "accepted"} for _ in lines]})


OUTSIDE = {
    "no JSON": garbage(b"<html>"),
    "too few results": garbage(b'{"results": []}'),
    "an id that is a number": garbage(b'{"results": [{"id": 5, "status": "accepted"}]}'),
    "an unknown status": garbage(b'{"results": [{"id": null, "status": "postponed"}]}'),
    "accepted as another": taken_as_other,
    "an error of the server": garbage(b"", 500),
    "a refusal of the request": garbage(b"", 400),
}


@pytest.mark.parametrize("fields", [{"idempotency_key": "once"}, {"event": ("shop", "1")}])
def test_a_repeated_identity_is_taken_under_the_id_of_the_first(here: World, fields: dict[str, Any]) -> None:
    repeated = here.send(**fields)
    future = here.confirms.expect(repeated)
    here.judge = lambda line: {"id": FIRST, "status": "duplicate"} if line["id"] == repeated else accepted(line)
    other = here.send("other")
    here.work()
    assert here.counts() == (0, 0)
    assert future.result(0) == FIRST
    assert other in here.sent()


def test_a_message_without_such_an_identity_is_no_repetition_of_another(here: World) -> None:
    kept = here.send()
    here.judge = lambda line: {"id": FIRST, "status": "duplicate"} if line["id"] == kept else accepted(line)
    here.send()
    here.work()
    assert here.counts() == (1, 0)


@pytest.mark.parametrize("answer", OUTSIDE.values(), ids=OUTSIDE)
def test_an_answer_outside_the_contract_stops_the_record_that_it_is_about(here: World, answer: Answer) -> None:
    for _ in range(40):
        here.send()
    poison = here.send()
    for destination in ["a"] * 40 + ["b"]:
        here.send(destination)
    here.answer = breaks(here, poison, answer)
    here.work()
    assert here.counts() == (1, 0), "the others are sent at once"
    tries = len(here.requests)
    for _ in range(20):
        here.time.elapsed += here.work()
    assert len(here.requests) - tries <= 20, "it is tried by its backoff"
    here.send()
    here.answer = here.judged
    here.time.elapsed += 60
    here.work()
    assert here.counts() == (0, 0)


def test_later_messages_of_its_key_stay_behind_it_and_those_of_other_keys_do_not(here: World) -> None:
    poison = here.send(key="1")
    behind = [here.send(key="1") for _ in range(200)]
    others = [here.send(key=str(number)) for number in range(2, 6)]
    here.answer = breaks(here, poison, garbage(b"", 500))
    for _ in range(10):
        here.time.elapsed += here.work()
    assert set(others) <= set(here.sent())
    assert here.counts() == (201, 0)
    here.answer = here.judged
    here.time.elapsed += 60
    here.requests.clear()
    here.work()
    assert here.sent() == [poison, *behind]
    assert here.counts() == (0, 0)


def test_what_follows_a_key_is_bounded(here: World) -> None:
    poison = here.send(key="1")
    for _ in range(1500):
        here.send(key="1")
    here.answer = breaks(here, poison, garbage(b"", 500))
    for _ in range(10):
        here.time.elapsed += here.work()
    assert here.counts() == (1501, 0)
    here.answer = here.judged
    here.time.elapsed += 60
    here.work()
    assert here.counts() == (0, 0)


def test_a_producers_lane_keeps_its_order_behind_it(here: World) -> None:
    poison = here.send(producer=3)
    here.send(producer=3)
    here.answer = breaks(here, poison, garbage(b"", 500))
    for _ in range(10):
        here.time.elapsed += here.work()
    assert here.counts() == (2, 0)


def test_a_receiver_that_answers_nothing_right_is_asked_by_backoff(here: World) -> None:
    for _ in range(MOST + 20):
        here.send("a")
        here.send("b")
    here.answer = garbage(b"<html>")
    here.work()
    tries = len(here.requests)
    assert tries < MOST + 20
    assert "not as a receiver does" in here.daemon.trouble
    here.answer = here.judged
    here.time.elapsed += 60
    here.work()
    assert here.counts() == (0, 0)
    assert here.daemon.trouble == ""


def test_one_that_an_earlier_process_left_holds_up_no_lane(tmp_path: Path) -> None:
    with world(tmp_path / "spool", source="test") as before:
        poison = before.send()
    with world(tmp_path / "spool", source="test") as here:
        here.answer = breaks(here, poison, garbage(b"", 500))
        later = here.send()
        here.work()
        assert later in here.sent()
        assert here.counts() == (0, 0)
