"""Requests to a receiver, however they are cut: heads, chunked bodies with their trailers, and lines."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

from bus.errors import InvalidMessage
from bus.http.draft import draft_of_line
from tests.fuzz.target import Target, halves
from tests.fuzz.targets.messages import check_draft
from tests.unit.receiver.single_requests import ALL, KNOWN, chunked, post
from tests.unit.receiver.talks import Heard, Talk, both, direct

_CHUNKED: Final = chunked(body=b"")


_LINE: Final = {"destination": "orders", "body": {"a": [1, "é"]}, "key": "k", "headers": {"x": "y"}}


def _heard(sent: bytes) -> Heard:
    """The endpoint and the application answer the same, however the input is cut, and nothing fails at our end."""
    _, heard = both(Talk([sent]))
    assert direct(Talk(halves(sent), turns=False))._replace(asked=0) == heard._replace(asked=0)
    assert b"HTTP/1.1 500" not in heard.answers
    return heard


def request_heads(data: bytes) -> None:
    _heard(data)


def chunked_bodies(data: bytes) -> None:
    _heard(_CHUNKED + data)


def trailers(data: bytes) -> None:
    heard = _heard(_CHUNKED + b"2\r\n{}\r\n0\r\n" + data)
    for first in heard.stored[:1]:
        assert (first["body"], first["biz_id"], first["headers"], first["key"]) == (b"{}", "", {}, "")


def ndjson(data: bytes) -> None:
    heard = _heard(post(b"content-type: application/x-ndjson", to=b"/v1/messages", body=data))
    assert heard.answers.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202", b"HTTP/1.1 4"))
    for line in data.split(b"\n"):
        with suppress(InvalidMessage):
            check_draft(draft_of_line(line))


TARGETS: Final = {
    "request_heads": Target(request_heads, list(ALL.values())),
    "chunked_bodies": Target(
        chunked_bodies,
        [
            b"2\r\n{}\r\n0\r\n\r\n",
            b"1;a=b\r\n{\r\n01\r\n}\r\n0\r\n\r\n",
            b"zz\r\n",
            b"A\r\n0123456789\r\n0\r\nx: y\r\n\r\n",
        ],
    ),
    "trailers": Target(trailers, [b"\r\n", b"bus-biz-id: 1\r\n\r\n", b"Authorization: Bearer a\r\nx: y\r\n\r\n"]),
    "ndjson": Target(
        ndjson,
        [
            json.dumps(_LINE).encode() + b"\n" + json.dumps(_LINE).encode(),
            b'{"destination":"orders","body_base64":"AAEC","id":"%s","deliver_at":"2026-11-21T12:30:00Z"}' % KNOWN,
            b'{"destination":"nowhere","body":1}\n\nnull',
            b'{"destination":"orders","body":1,"event":["a","b"],"producer":1,"replay":"r %s"}' % KNOWN,
        ],
    ),
}
