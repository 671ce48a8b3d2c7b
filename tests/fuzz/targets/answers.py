"""Responses of subscribers and lookup servers, and queries to our lookup server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from bus.domain.delivery.batch import read_batch_answer
from bus.domain.delivery.retry import RETRY_AFTER_CAP, parse_retry_after
from bus.domain.routing.answers import Unreadable, merge, read_answer
from bus.domain.routing.listlookup import read_listed
from bus.posters.answer import Answer, AnswerLimits, BadAnswer
from bus.testing.clock import NOON
from lookup.query import MalformedQuery, read_query
from tests.fuzz.target import Target, halves

_PEER: Final = {"broadcast_address": "127.0.0.1", "hostname": "a", "tcp_port": 4150, "http_port": 4151, "version": "1"}


def answers(data: bytes) -> None:
    whole, cut = _read(AnswerLimits(), [data]), _read(AnswerLimits(), halves(data))
    assert (whole.status, whole.body, whole.complete) == (cut.status, cut.body, cut.complete)
    assert whole.fields == cut.fields
    small = AnswerLimits(body=32, kept=16)
    assert len(_read(small, [data]).body) <= small.kept


def _read(limits: AnswerLimits, pieces: Sequence[bytes]) -> Answer:
    answer = Answer(limits)
    with suppress(BadAnswer):
        for piece in pieces:
            if answer.feed(piece):
                break
        else:
            answer.end()
    return answer


def batch_answers(data: bytes) -> None:
    assert read_batch_answer(data, is_whole=False).unclear
    answer = read_batch_answer(data, is_whole=True)
    with suppress(ValueError, RecursionError):
        found = json.loads(data)
        if isinstance(found, dict) and "failed" in found and not answer.unclear:
            assert set(found["failed"]) == set(answer.failed)


def retry_after(data: bytes) -> None:
    value, _, date = data.decode("latin-1").partition("\n")
    found = parse_retry_after(value, NOON, date or None)
    assert found is None or 0 <= found <= RETRY_AFTER_CAP


def lookups(data: bytes) -> None:
    with suppress(MalformedQuery):
        assert read_query(data).topic
    with suppress(Unreadable):
        read_listed(data)
    with suppress(Unreadable):
        answer = read_answer(data)
        assert read_answer(msgspec.json.encode(merge([answer], None).content)) is not None


TARGETS: Final = {
    "answers": Target(
        answers,
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            b"HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\nok\r\n0\r\nx: y\r\n\r\n",
            b"HTTP/1.1 503 no\nRetry-After: 3\nX: a\n b\n\n",
            b"HTTP/1.0 200 OK\r\n\r\nuntil the end",
        ],
    ),
    "batch_answers": Target(
        batch_answers,
        [
            b"",
            b"ok",
            b'{"failed": null}',
            b'{"failed": ["a", "b"]}',
            '{"failed":["é"]}'.encode("utf-16"),
            b"\xef\xbb\xbf{}",
        ],
    ),
    "retry_after": Target(
        retry_after, [b"120", b"Sat, 21 Nov 2026 12:30:00 GMT\nSat, 21 Nov 2026 12:00:00 GMT", b"-1", b"1e9"]
    ),
    "lookups": Target(
        lookups,
        [
            b"topic=orders&access=w&metainfo=true",
            json.dumps({"channels": ["a"], "producers": [_PEER], "partitions": {"0": _PEER}, "meta": {}}).encode(),
            json.dumps({"status_code": 200, "data": {"lookupdleader": None, "lookupdnodes": []}}).encode(),
        ],
    ),
}
