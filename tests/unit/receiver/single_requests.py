"""Requests with a single message, well-formed and hostile, and the application that answers what no endpoint takes."""

from __future__ import annotations

from bus.domain.identity import new_id
from bus.http.asgi import Receive, Scope, Send, answer
from bus.http.heads import LONGEST_HEAD
from bus.http.messages import PREFIX
from bus.testing.clock import NOON
from tests.unit.receiver.receiver_world import World

LIMIT = 1000
"""What a body of ``orders`` may have at most, in bytes."""
HOST = b"host: localhost\r\n"
KNOWN = new_id(NOON).encode()


class Behind:
    """The application: the receiver's, and one that tells what it got."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.asked = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        if scope["path"].startswith(PREFIX):
            await self._world.app(scope, receive, send)
            return
        await receive()
        await answer(send, 200, scope["path"].encode(), "text/plain")


def post(
    *fields: bytes,
    to: bytes = b"/v1/messages/orders",
    body: bytes = b"{}",
    method: bytes = b"POST",
    length: bool = True,
) -> bytes:
    """Return a whole request."""
    own = [HOST, *([b"content-length: %d\r\n" % len(body)] if length else []), *(field + b"\r\n" for field in fields)]
    return b"%s %s HTTP/1.1\r\n%s\r\n%s" % (method, to, b"".join(own), body)


def chunked(*fields: bytes, body: bytes = b"2\r\n{}\r\n0\r\n\r\n") -> bytes:
    return post(b"transfer-encoding: chunked", *fields, body=body, length=False)


PLAIN = post(b"content-type: application/json")
TAKEN = {
    "plain": PLAIN,
    "empty": post(body=b""),
    "as large as it may be": post(body=bytes(LIMIT)),
    "every field": post(
        b"Bus-Biz-Id: 42", b"bus-source: shop", b"BUS-KEY: k", b"bus-routing-key: a.b", b"bus-header-x-a: \xc3\xa9",
        b"bus-sent-at: 2026-11-21T11:59:00Z", b"bus-deliver-at: 2026-11-21T12:30:00Z", b"traceparent: 00-a-b-01",
    ),
    "event without an id": post(b"ce-source: /shop", b"ce-subject: 7"),
    "HTTP/1.0": PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/1.0, kept": post(b"connection: keep-alive").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "closed": post(b"Connection: Close"),
    "line breaks before it": b"\r\n\r\n" + PLAIN,
    "no length": post(body=b"", length=False),
    "many fields": post(*(b"x-%d: y" % number for number in range(500))),
    "odd spaces": post(b"bus-biz-id: \t 42 \t"),
    "offers an upgrade": post(b"connection: upgrade", b"upgrade: h2c"),
    "absolute": post(to=b"http://localhost/v1/messages/orders"),
    "a repeated host-like field": post(b"x-host: a", b"x-host: b"),
}  # fmt: skip
REFUSED = {
    "sent at no time": post(b"bus-sent-at: soon"),
    "delivered too late": post(b"bus-deliver-at: 2036-11-21T12:30:00Z"),
    "not UTF-8": post(b"bus-biz-id: \xff"),
    "own field twice": post(b"bus-header-a: 1", b"bus-header-A: 2"),
    "own field reserved": post(b"bus-header-host: 1"),
    "large with its fields": post(b"bus-header-a: " + b"b" * 50, body=bytes(LIMIT)),
}
OTHERS = {
    "large": post(body=bytes(LIMIT + 1)),
    "large and not sent": post(body=b"").replace(b"length: 0", b"length: 5000"),
    "encoded": post(b"content-encoding: gzip"),
    "as it is": post(b"content-encoding: identity"),
    "chunked": chunked(),
    "chunked with a trailer": chunked(body=b"2\r\n{}\r\n0\r\nbus-biz-id: 1\r\n\r\n"),
    "chunked badly": chunked(body=b"zz\r\n"),
    "chunked and large": chunked(body=b"800\r\n" + bytes(2048) + b"\r\n0\r\n\r\n"),
    "id": post(b"bus-message-id: " + KNOWN),
    "no id": post(b"bus-message-id: 1"),
    "key": post(b"idempotency-key: a"),
    "event": post(b"ce-id: 1", b"ce-source: /shop"),
    "expects": post(b"Expect: 100-continue"),
    "opens a WebSocket": post(b"connection: upgrade", b"upgrade: websocket"),
    "another destination": post(to=b"/v1/messages/nowhere"),
    "no destination": post(to=b"/v1/messages/"),
    "no code": post(to=b"/v1/messages/-a"),
    "below it": post(to=b"/v1/messages/orders/1"),
    "query": post(to=b"/v1/messages/orders?a=b"),
    "escaped": post(to=b"/v1/messages/%6frders"),
    "asked": post(method=b"GET"),
    "put": post(method=b"PUT"),
    "elsewhere": post(to=b"/elsewhere"),
    "batch": post(b"content-type: application/x-ndjson", to=b"/v1/messages", body=b'{"destination":"orders","body":1}'),
    "no host": PLAIN.replace(HOST, b""),
    "foreign host": PLAIN.replace(HOST, b"host: evil.example\r\n"),
    "page of another site": PLAIN.replace(HOST, HOST + b"sec-fetch-site: cross-site\r\n"),
    "page of another origin": PLAIN.replace(HOST, HOST + b"origin: https://evil.example\r\n"),
    "two hosts": post(b"host: localhost"),
    "another coding": post(b"transfer-encoding: gzip", length=False),
    "two lengths": post(b"content-length: 3"),
    "length and chunks": post(b"transfer-encoding: chunked"),
    "negative length": PLAIN.replace(b"length: 2", b"length: -2"),
    "length is no number": PLAIN.replace(b"length: 2", b"length: two"),
    "head too long": post(b"bus-key: " + b"k" * LONGEST_HEAD),
    "head with a bare line feed": PLAIN.replace(b"\r\n", b"\n"),
    "folded field": post(b"bus-biz-id: 4\r\n 2"),
    "space before the colon": post(b"bus-biz-id : 42"),
    "NUL": post(b"bus-biz-id: \x00"),
    "small letters": post(method=b"post"),
    "garbage": b"GARBAGE\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "nothing": b"\r\n",
    "half a head": PLAIN[:60],
    "half a body": PLAIN[:-1],
    "no body": PLAIN[:-2],
}
ALL = TAKEN | REFUSED | OTHERS
