"""Requirements of RFC 9112 and RFC 9110 for a server, as requests and their verdicts.

``python -m tests.unit.http.rfc9112_requests`` prints the table with the verdicts that the server gives.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.http.heads import LONGEST_HEAD
from tests.harness.verdict_table import escaped, markdown
from tests.unit.http.request_verdicts import DATE, Verdict, converse

HOST: Final = b"host: x\r\n"
CLOSE: Final = b"connection: close\r\n"
EXPECT: Final = b"expect: 100-continue\r\n"
CHUNKED: Final = b"transfer-encoding: chunked\r\n"
CHUNKS: Final = b"2\r\nab\r\n0\r\n\r\n"
HANDSHAKE: Final = (
    b"connection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


class Row(NamedTuple):
    """A requirement, requests that show it, and their verdict.

    Attributes
    ----------
    has, lacks
        Fields that the last answer has (``name`` or ``name: value``) and has not.
    ends
        The client closes its direction after the requests.
    deviation
        Why the verdict is not what the section asks for; empty where it is.
    """

    section: str
    requirement: str
    pieces: tuple[bytes, ...]
    verdict: Verdict
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    ends: bool = False
    deviation: str = ""

    def __str__(self) -> str:
        return f"{self.section} {self.requirement}"


def get(*fields: bytes, target: bytes = b"/", version: bytes = b"HTTP/1.1", method: bytes = b"GET") -> bytes:
    """Return a request without a body."""
    return method + b" " + target + b" " + version + b"\r\n" + HOST + b"".join(fields) + b"\r\n"


def hosted(*hosts: bytes, target: bytes = b"/field/host", version: bytes = b"HTTP/1.1") -> bytes:
    """Return a request with these Host fields."""
    lines = b"".join(b"host: " + host + b"\r\n" for host in hosts)
    return b"GET " + target + b" " + version + b"\r\n" + lines + b"\r\n"


def field(line: bytes, name: bytes = b"x") -> bytes:
    """Return a request with a line, whose value of ``name`` is what the application sees."""
    return get(line + b"\r\n", target=b"/field/" + name)


def post(*fields: bytes, body: bytes = b"ab", target: bytes = b"/", version: bytes = b"HTTP/1.1") -> bytes:
    """Return a request with a body; its framing is among the fields."""
    return get(*fields, target=target, version=version, method=b"POST") + body


def length(value: bytes, *more: bytes, body: bytes = b"ab") -> bytes:
    """Return a request with a Content-Length."""
    return post(b"content-length: " + value + b"\r\n", *more, body=body)


def coded(value: bytes, *more: bytes, body: bytes = CHUNKS) -> bytes:
    """Return a request with a Transfer-Encoding."""
    return post(b"transfer-encoding: " + value + b"\r\n", *more, body=body)


def chunks(body: bytes) -> bytes:
    """Return a chunked request."""
    return post(CHUNKED, body=body)


def served(
    section: str,
    requirement: str,
    *pieces: bytes,
    statuses: tuple[int, ...] = (200,),
    saw: tuple[bytes, ...] = (b"",),
    has: tuple[str, ...] = (),
    lacks: tuple[str, ...] = (),
    deviation: str = "",
) -> Row:
    """Return a row whose connection stays open."""
    return Row(section, requirement, pieces, Verdict(statuses, True, saw), has, lacks, deviation=deviation)


def ended(
    section: str,
    requirement: str,
    *pieces: bytes,
    statuses: tuple[int, ...] = (200,),
    saw: tuple[bytes, ...] = (b"",),
    has: tuple[str, ...] = (),
    lacks: tuple[str, ...] = (),
    deviation: str = "",
) -> Row:
    """Return a row whose connection is closed after an answer of the application."""
    return Row(section, requirement, pieces, Verdict(statuses, False, saw), has, lacks, deviation=deviation)


def refused(section: str, requirement: str, *pieces: bytes, status: int = 400, deviation: str = "") -> Row:
    """Return a row whose request the application does not see, and whose connection is closed."""
    return Row(section, requirement, pieces, Verdict((status,), False, ()), deviation=deviation)


def cut(section: str, requirement: str, *pieces: bytes) -> Row:
    """Return a row whose client closes its direction before the request is whole."""
    return Row(section, requirement, pieces, Verdict((), False, ()), ends=True)


REQUEST_LINES: Final = [
    served("9112 2.2", "An empty line before the request line is skipped", b"\r\n" + get()),
    served("9112 2.2", "Several empty lines before the request line are skipped", b"\r\n\r\n\n" + get()),
    refused("9112 2.2", "A bare CR does not end the request line", get().replace(b"\r\n", b"\r", 1)),
    refused("9112 2.2", "A bare LF may be refused as the end of the request line", get().replace(b"\r\n", b"\n", 1)),
    refused("9112 2.2", "A head with bare LF only may be refused", get().replace(b"\r\n", b"\n")),
    refused("9112 2.2", "White space before the first field is refused", get().replace(HOST, b" " + HOST)),
    refused(
        "9112 2.2", "A line of white space before the first field is refused", get().replace(HOST, b" \r\n" + HOST)
    ),
    refused("9112 2.2", "What is not HTTP is refused", b"GARBAGE\r\n\r\n"),
    refused("9112 2.2", "A TLS handshake is refused", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    served("9112 3", "More than one space before the target may be taken as one", get(target=b" /")),
    refused("9112 3", "A tab is no separator in the request line", b"GET\t/ HTTP/1.1\r\n" + HOST + b"\r\n"),
    refused("9112 3", "White space before the method is refused", b" " + get()),
    refused("9112 3", "White space after the version is refused", get(version=b"HTTP/1.1 ")),
    refused("9112 3", "White space in the target is refused", get(target=b"/a b")),
    refused("9112 3", "A target with bytes that are not ASCII is refused", get(target=b"/\xff")),
    served("9112 3", "A target of 8,000 bytes is served", get(target=b"/" + b"a" * 8_000)),
    refused("9112 3", "A target over the limit is a 414", get(target=b"/" + b"a" * LONGEST_HEAD), status=414),
    refused("9112 3", "A target over the limit without an end is a 414", b"GET /" + b"a" * LONGEST_HEAD, status=414),
    refused(
        "9112 3.1",
        "An unknown method is refused",
        get(method=b"FOO"),
        deviation="SHOULD be a 501: the parser cannot tell an unknown method from what is not HTTP",
    ),
    refused(
        "9112 3.1",
        "A method longer than any known is refused",
        get(method=b"A" * 70_000),
        deviation="SHOULD be a 501: as for an unknown method",
    ),
    refused("9110 9.1", "Methods are case-sensitive", get(method=b"get")),
    refused("9110 9.1", "A method is a token", get(method=b"G(T")),
    served("9110 9.1", "A method that is known and not ours is the application's", get(method=b"PROPFIND")),
    *[
        refused("9110 9.3.6", "CONNECT is refused", get(target=target, method=b"CONNECT"))
        for target in (b"a.example:443", b"/path")
    ],
    refused("9112 3.2.3", "Authority form is for CONNECT only", get(target=b"a.example:443")),
    refused("9112 3.2.1", "A target that begins without a slash is refused", get(target=b"p")),
    served(
        "9112 3.2.1",
        "A fragment is no part of a target",
        get(target=b"/#f"),
        deviation="SHOULD be a 400: the fragment is dropped, as proxies do",
    ),
    served("9112 3.2.4", "Asterisk form is for OPTIONS", get(target=b"*", method=b"OPTIONS")),
    refused("9112 3.2.4", "Asterisk form is for OPTIONS only", get(target=b"*")),
]

VERSIONS: Final = [
    ended("9112 2.3", "HTTP/1.0 is served, and its connection closed", get(version=b"HTTP/1.0")),
    refused(
        "9110 2.5",
        "A higher minor version is served as the highest that is known",
        get(version=b"HTTP/1.2"),
        deviation="SHOULD be served: the parser knows 1.0 and 1.1 only, and no client sends it",
    ),
    refused("9110 15.6.6", "Another major version is a 505", get(version=b"HTTP/2.0"), status=505),
    refused("9110 15.6.6", "A major version that never was is refused", get(version=b"HTTP/9.9")),
    refused("9112 3", "The preface of HTTP/2 is refused", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    refused("9112 3", "HTTP/0.9 is refused", get(version=b"HTTP/0.9")),
    refused("9112 3", "A request line without a version is refused", b"GET /\r\n\r\n"),
    refused("9112 3", "A request line without a version is refused with fields as well", b"GET /\r\n" + HOST + b"\r\n"),
    refused("9112 2.3", "A version has one digit on each side", get(version=b"HTTP/1.10")),
    refused("9112 2.3", "A version has two sides", get(version=b"HTTP/1")),
    refused("9112 2.3", "The name of the protocol is case-sensitive", get(version=b"http/1.1")),
    ended(
        "9112 2.3",
        "Another protocol's name is refused",
        get(version=b"RTSP/1.0"),
        deviation="SHOULD be a 400: the parser takes it for HTTP/1.0 and does not tell",
    ),
]

HOSTS: Final = [
    refused("9112 3.2", "A request of HTTP/1.1 without Host is a 400", hosted()),
    ended("9112 3.2", "A request of HTTP/1.0 needs no Host", hosted(version=b"HTTP/1.0")),
    refused("9112 3.2", "Two Hosts are a 400", hosted(b"a", b"b")),
    refused("9112 3.2", "Two equal Hosts are a 400", hosted(b"a", b"a")),
    refused("9112 3.2", "Two Hosts are a 400 in HTTP/1.0 as well", hosted(b"a", b"b", version=b"HTTP/1.0")),
    served("9112 3.2", "An empty Host is allowed", hosted(b"")),
    *[
        served("9110 7.2", "A valid Host is given to the application", hosted(host), saw=(host,))
        for host in (
            b"a.example",
            b"a_b:8700",
            b"a:",
            b"127.0.0.1:80",
            b"[::1]:80",
            b"[fe80::1%eth0]:80",
            b"[v1.a:b]",
            b"a%20b",
        )
    ],
    *[
        refused("9112 3.2", "An invalid Host is a 400", hosted(host))
        for host in (b"a b", b"a/b", b"http://a", b"u@a", b"a:b", b"a:1:2", b"[::1", b"::1", b"a?b", b"\xff", b"a%2")
    ],
    refused("9112 3.2", "An invalid Host is a 400 in HTTP/1.0 as well", hosted(b"a/b", version=b"HTTP/1.0")),
    served(
        "9112 3.2.2",
        "The authority of an absolute target replaces Host",
        hosted(b"b.example", target=b"http://a.example:81/field/host"),
        saw=(b"a.example:81",),
    ),
    served(
        "9112 3.2.2",
        "The scheme of an absolute target is case-insensitive",
        hosted(b"b", target=b"HTTP://a/field/host?q"),
        saw=(b"a",),
    ),
    ended(
        "9112 3.2.2",
        "An absolute target stands for a Host that is missing in HTTP/1.0",
        hosted(target=b"http://a/field/host", version=b"HTTP/1.0"),
        saw=(b"a",),
    ),
    refused("9112 3.2", "An absolute target does not replace a missing Host of HTTP/1.1", hosted(target=b"http://a/")),
    served("9112 3.2.2", "An absolute target may have no path", hosted(b"a", target=b"http://a")),
    served("9112 3.2.2", "An absolute target may have a query and no path", hosted(b"a", target=b"http://a?q=1")),
    served(
        "9112 3.2.4",
        "OPTIONS of an absolute target without a path is for the server",
        hosted(b"a", target=b"http://a").replace(b"GET", b"OPTIONS"),
    ),
    refused("9110 4.2.1", "An absolute target without a host is refused", hosted(b"a", target=b"http:///field/host")),
    refused("9110 4.2.4", "An absolute target with user information is refused", hosted(b"a", target=b"http://u@a/")),
    refused("9110 7.4", "An absolute target of another scheme is refused", hosted(b"a", target=b"ftp://a/field/host")),
]

FIELDS: Final = [
    served("9112 5", "White space around a value is no part of it", field(b"x: \t a b \t"), saw=(b"a b",)),
    served("9112 5", "A value may follow the colon at once", field(b"x:a"), saw=(b"a",)),
    served("9112 5", "A value may be empty", field(b"x:")),
    served("9110 5.1", "Names are case-insensitive", field(b"X: a"), saw=(b"a",)),
    served("9110 5.1", "A field that is not known is passed over", get(b"x-unknown: a\r\n")),
    served("9110 5.3", "Repeated fields keep their order", field(b"x: a\r\nx: b"), saw=(b"a|b",)),
    served("9110 5.5", "A value may have bytes over 127", field(b"x: \xe9"), saw=(b"\xe9",)),
    *[
        refused("9112 5.1", "White space before the colon is a 400", field(line))
        for line in (b"x : a", b"x\t: a", b"content-length : 2")
    ],
    *[refused("9112 5.2", "A folded line is a 400", field(b"x: a\r\n" + space + b"b")) for space in (b" ", b"\t")],
    *[
        refused("9110 5.5", "CR, LF, NUL and controls in a value are refused", field(b"x: a" + byte + b"b: c"))
        for byte in (b"\r", b"\n", b"\x00", b"\x01", b"\x7f")
    ],
    *[
        refused("9110 5.1", "A name is a token", field(line))
        for line in (b": a", b"x y: a", b"x(: a", b"x\x00: a", b"\xff: a", b"x\r: a", b"no colon")
    ],
    refused("9110 5.4", "A head over the limit is a 431", get(b"x: " + b"y" * LONGEST_HEAD + b"\r\n"), status=431),
    refused("9110 5.4", "Many fields over the limit are a 431", get(b"x: y\r\n" * (LONGEST_HEAD // 6)), status=431),
    refused(
        "9110 5.4",
        "A head over the limit without an end is a 431",
        get()[:-2] + b"x: " + b"y" * LONGEST_HEAD,
        status=431,
    ),
    served("9110 5.4", "A head of 60 KiB is served", get(b"x: " + b"y" * 61_000 + b"\r\n")),
]

LENGTHS: Final = [
    served("9112 6.3", "A Content-Length frames the body", length(b"2"), saw=(b"ab",)),
    served("9112 6.3", "A request without a length has no body", post(body=b"")),
    served("9112 6.3", "A GET may have a body", get(b"content-length: 2\r\n") + b"ab", saw=(b"ab",)),
    served("9110 8.6", "Leading zeros are digits", length(b"002"), saw=(b"ab",)),
    *[
        refused("9112 6.3", "A Content-Length that is no number is a 400", length(value))
        for value in (b"", b"+2", b"-2", b"0x2", b"2.0", b"2 2", b"2;a", b"1_0", b"two", b"\xb2")
    ],
    *[
        refused("9110 8.6", "A Content-Length that is too large to count is a 400", length(value))
        for value in (b"18446744073709551618", b"9" * 30)
    ],
    *[
        refused("9112 6.3", "Different lengths are a 400", length(value))
        for value in (b"2, 3", b"2\r\ncontent-length: 3", b"3\r\ncontent-length: 2")
    ],
    *[
        refused("9110 8.6", "Equal lengths may be refused", length(value))
        for value in (b"2, 2", b"2\r\ncontent-length: 2")
    ],
    cut("9112 8", "A body that the client cuts off is not taken", length(b"3")),
    cut("9112 8", "A head that the client cuts off is not taken", get()[:-2]),
    refused("9110 15.5.9", "A body that does not come in time is a 408", length(b"3"), status=408),
    refused("9110 15.5.9", "A head that does not come in time is a 408", get()[:-2], status=408),
]

CODINGS: Final = [
    served("9112 7.1", "A chunked body is read", coded(b"chunked"), saw=(b"ab",)),
    served("9112 7", "Names of codings are case-insensitive", coded(b"CHUNKED"), saw=(b"ab",)),
    *[
        refused("9112 6.3", "A coding other than chunked at the end is a 400", coded(value))
        for value in (
            b"gzip",
            b"identity",
            b"xchunked",
            b'"chunked"',
            b"\x0bchunked",
            b"",
            b"chunked, gzip",
            b"chunked\r\ntransfer-encoding: gzip",
            b"chunked,identity",
        )
    ],
    *[
        refused("9112 6.1", "A coding before chunked that is not known is a 501", coded(value), status=501)
        for value in (b"gzip, chunked", b"gzip,chunked", b"gzip\r\ntransfer-encoding: chunked")
    ],
    *[
        refused("9112 6.1", "Chunked twice is a 400", coded(value))
        for value in (b"chunked, chunked", b"chunked\r\ntransfer-encoding: chunked")
    ],
    refused("9112 7.1", "Chunked has no parameters", coded(b"chunked;q=1")),
    *[
        refused(
            "9110 5.6.1",
            "Empty elements of a list are passed over",
            coded(value),
            deviation="MUST be read: a proxy in front may read such a list otherwise, and no client sends it",
        )
        for value in (b", chunked", b"chunked,")
    ],
    *[
        refused("9112 6.1", "A length beside chunks may be refused, and its connection is closed", request)
        for request in (
            coded(b"chunked", b"content-length: 2\r\n"),
            coded(b"chunked", b"content-length: 0\r\n"),
            length(b"12", CHUNKED, body=CHUNKS),
        )
    ],
    ended(
        "9112 6.1",
        "The connection of a chunked request of HTTP/1.0 is closed",
        post(CHUNKED, b"connection: keep-alive\r\n", body=CHUNKS, version=b"HTTP/1.0") + get(),
        saw=(b"ab",),
    ),
    refused(
        "9112 6.1",
        "A length beside chunks is refused in HTTP/1.0 as well",
        post(CHUNKED, b"content-length: 2\r\n", body=CHUNKS, version=b"HTTP/1.0"),
    ),
]

CHUNKED_BODIES: Final = [
    *[
        served("9112 7.1.1", "Extensions of a chunk that are not known are passed over", chunks(body), saw=(b"ab",))
        for body in (
            b"2;a=b\r\nab\r\n0\r\n\r\n",
            b"2;a\r\nab\r\n0;b\r\n\r\n",
            b'2;a="b;\\"c"\r\nab\r\n0\r\n\r\n',
            b"2;" + b"a" * 10_000 + b"\r\nab\r\n0\r\n\r\n",
        )
    ],
    refused(
        "9112 7.1.1",
        "The length of extensions is limited",
        chunks(b"2;" + b"a" * LONGEST_HEAD),
        b"a" * LONGEST_HEAD,
        status=431,
    ),
    *[
        served("9112 7.1", "The size of a chunk is hexadecimal in either case", chunks(body), saw=(b"0123456789",))
        for body in (b"A\r\n0123456789\r\n0\r\n\r\n", b"a\r\n0123456789\r\n0\r\n\r\n")
    ],
    served(
        "9112 7.1", "The size of a chunk may have leading zeros", chunks(b"0002\r\nab\r\n000\r\n\r\n"), saw=(b"ab",)
    ),
    *[
        refused("9112 7.1", "A size that is too large to count is a 400", chunks(body))
        for body in (b"ffffffffffffffffff\r\nab", b"10000000000000002\r\nab\r\n0\r\n\r\n")
    ],
    *[
        refused("9112 7.1", "A size is hexadecimal digits and nothing else", chunks(size + b"\r\nab\r\n0\r\n\r\n"))
        for size in (b"-2", b"+2", b"0x2", b"", b"2 ", b" 2", b"2_0", b"zz", b"2 ;a")
    ],
    *[
        refused("9112 7.1", "Lines of a chunked body end with CR LF", chunks(body))
        for body in (
            b"2\nab\r\n0\r\n\r\n",
            b"2\rab\r\n0\r\n\r\n",
            b"2;a\nab\r\n0\r\n\r\n",
            b"2;a\rab\r\n0\r\n\r\n",
            b"2\r\nab\n0\r\n\r\n",
            b"2\r\nab\r0\r\n\r\n",
            b"2\r\nab\r\n0\n\r\n",
            b"2\r\nab\r\n0\r\n\n",
            b'2;a="\r\n"\r\nab\r\n0\r\n\r\n',
        )
    ],
    *[
        refused("9112 7.1", "A chunk ends where its size says", chunks(body))
        for body in (b"2\r\nabXX0\r\n\r\n", b"2\r\nabc\r\n0\r\n\r\n", b"2\r\nabXX")
    ],
    *[
        served(
            "9110 6.5.1",
            "Trailers are not merged into the fields of the head",
            post(CHUNKED, body=b"0\r\nhost: y\r\nauthorization: Bearer x\r\n\r\n", target=b"/field/" + name),
            saw=(value,),
        )
        for name, value in ((b"host", b"x"), (b"authorization", b""))
    ],
    *[
        refused(
            "9110 6.5.1",
            "Trailers that frame a message or manage a connection are refused",
            chunks(b"2\r\nab\r\n0\r\n" + line + b"\r\n\r\n") + get(),
        )
        for line in (
            b"content-length: 5",
            b"transfer-encoding: gzip",
            b"connection: close",
            b"Proxy-Connection: close",
            b"connection: upgrade\r\nupgrade: websocket",
        )
    ],
    *[
        refused("9112 7.1.2", "Trailers have the form of fields", chunks(b"2\r\nab\r\n0\r\n" + line + b"\r\n\r\n"))
        for line in (b"no colon", b"x : 1", b"x: 1\r\n 2", b"x: a\x00b")
    ],
    refused(
        "9112 7.1.2",
        "The length of trailers is limited",
        chunks(b"0\r\nx: " + b"y" * LONGEST_HEAD + b"\r\n\r\n"),
        status=431,
    ),
    cut("9112 8", "A chunked body that the client cuts off is not taken", chunks(b"2\r\nab\r\n")),
]

CONNECTIONS: Final = [
    served("9112 9.3", "A connection is kept", get(), lacks=("connection",)),
    *[
        ended(
            "9112 9.6", "Nothing is served after a request with close", get(lines) + get(), has=("connection: close",)
        )
        for lines in (CLOSE, b"Connection: keep-alive, CLOSE\r\n", b"connection: keep-alive\r\n" + CLOSE)
    ],
    ended(
        "9112 9.6", "Nothing is served after a request with close and a body", length(b"2", CLOSE) + get(), saw=(b"ab",)
    ),
    served("9110 7.6.1", "An option that only begins like close is another one", get(b"connection: closed\r\n")),
    *[
        ended("9112 9.3", "A connection of HTTP/1.0 may be closed", get(*lines, version=b"HTTP/1.0") + get())
        for lines in ((), (b"connection: keep-alive\r\n",))
    ],
    served(
        "9112 9.3.2",
        "Pipelined requests are answered in their order",
        length(b"2") + get() + chunks(CHUNKS) + get(),
        statuses=(200,) * 4,
        saw=(b"ab", b"", b"ab", b""),
    ),
    served(
        "9112 9.3.2",
        "Empty lines between pipelined requests are skipped",
        get() + b"\r\n" + get(),
        statuses=(200, 200),
        saw=(b"", b""),
    ),
    ended("9112 9.3.2", "Garbage after a request does not change its answer", get() + b"\x00garbage\r\n\r\n"),
    Row(
        "9112 9.3",
        "A request that is refused before its body came is followed by the next one",
        (post(b"content-length: 2\r\n", target=b"/refused", body=b""), b"ab" + get()),
        Verdict((401, 200), True, (b"",)),
    ),
    Row(
        "9112 9.6",
        "A large body behind a refusal closes the connection",
        (post(b"content-length: 999999\r\n", target=b"/refused"),),
        Verdict((401,), False, ()),
        ("connection: close",),
    ),
]

EXPECTATIONS: Final = [
    served(
        "9110 10.1.1",
        "A client that waits for 100 gets it",
        length(b"2", EXPECT, body=b""),
        b"ab",
        statuses=(100, 200),
        saw=(b"ab",),
    ),
    served(
        "9110 10.1.1",
        "The expectation is case-insensitive",
        length(b"2", b"Expect: 100-CONTINUE \r\n", body=b""),
        b"ab",
        statuses=(100, 200),
        saw=(b"ab",),
    ),
    ended(
        "9110 10.1.1",
        "A client of HTTP/1.0 gets no 100",
        post(EXPECT, b"content-length: 2\r\n", version=b"HTTP/1.0"),
        saw=(b"ab",),
    ),
    served(
        "9110 10.1.1",
        "A request that is refused at its head gets no 100",
        post(EXPECT, b"content-length: 2\r\n", target=b"/refused", body=b""),
        b"ab",
        statuses=(401,),
        saw=(),
    ),
    served("9110 10.1.1", "An expectation without a body needs no 100", get(EXPECT), statuses=(100, 200)),
    served("9110 10.1.1", "Another expectation may be passed over", length(b"2", b"expect: magic\r\n"), saw=(b"ab",)),
    *[
        served("9110 7.8", "An upgrade that is not supported is passed over", request, saw=(body,))
        for request, body in (
            (get(b"connection: upgrade\r\nupgrade: foo\r\n"), b""),
            (length(b"2", b"connection: upgrade\r\nupgrade: h2c\r\n"), b"ab"),
            (coded(b"chunked", b"connection: upgrade\r\nupgrade: TLS/1.3, h2c\r\n"), b"ab"),
        )
    ],
    served("9110 7.8", "An upgrade needs the connection option", get(b"upgrade: websocket\r\n")),
    ended("9110 7.8", "An upgrade in HTTP/1.0 is passed over", get(HANDSHAKE, version=b"HTTP/1.0")),
]

ANSWERS: Final = [
    served("9110 6.6.1", "An answer has a Date", get(), has=(f"date: {DATE}",)),
    refused("9110 6.6.1", "A refusal has a Date", hosted(b"a", b"b"))._replace(has=(f"date: {DATE}", "content-length")),
    served(
        "9110 8.6",
        "An answer of a known size has a Content-Length",
        get(),
        has=("content-length: 1",),
        lacks=("transfer-encoding",),
    ),
    served(
        "9112 7.1",
        "An answer of an unknown size is chunked",
        get(target=b"/stream"),
        has=("transfer-encoding: chunked",),
        lacks=("content-length",),
    ),
    ended(
        "9112 6.1",
        "An answer to HTTP/1.0 is never chunked",
        get(target=b"/stream", version=b"HTTP/1.0"),
        lacks=("content-length", "transfer-encoding"),
        has=("connection: close",),
    ),
    served(
        "9110 9.3.2",
        "An answer to HEAD has no content",
        get(method=b"HEAD") + get(),
        statuses=(200, 200),
        saw=(b"", b""),
    ),
    served(
        "9110 9.3.2", "An answer to HEAD has the length of the content", get(method=b"HEAD"), has=("content-length: 1",)
    ),
    served(
        "9110 9.3.2",
        "An answer to HEAD of an unknown size has no content",
        get(method=b"HEAD", target=b"/stream") + get(),
        statuses=(200, 200),
        saw=(b"", b""),
    ),
    refused("9110 9.3.2", "A refusal of HEAD has no content", hosted(b"a", b"b").replace(b"GET", b"HEAD"))._replace(
        has=("content-length",)
    ),
    *[
        served(
            "9110 8.6",
            "An answer without content has neither length nor coding",
            get(target=b"/%d" % status),
            statuses=(status,),
            lacks=("content-length", "transfer-encoding"),
        )
        for status in (204, 304)
    ],
    Row("9110 15.5.6", "A 405 has Allow", (get(target=b"/takes-post"),), Verdict((405,), True, ()), ("allow: POST",)),
    Row(
        "9110 15.5.2",
        "A 401 has WWW-Authenticate",
        (get(target=b"/refused"),),
        Verdict((401,), True, ()),
        ("www-authenticate: Bearer",),
    ),
]

ROWS: Final[list[Row]] = [
    *REQUEST_LINES,
    *VERSIONS,
    *HOSTS,
    *FIELDS,
    *LENGTHS,
    *CODINGS,
    *CHUNKED_BODIES,
    *CONNECTIONS,
    *EXPECTATIONS,
    *ANSWERS,
]


def table(rows: Sequence[Row]) -> str:
    """Return the rows with the verdicts that the server gives, and where they are others than the rows have."""
    lines = []
    for row in rows:
        found = converse(row.pieces, ends=row.ends).verdict
        remark = row.deviation if found == row.verdict else f"NOT AS EXPECTED: {row.verdict}"
        lines.append((row.section, row.requirement, f"`{escaped(b''.join(row.pieces))}`", str(found), remark))
    return markdown(("section", "requirement", "input", "verdict", "deviation"), lines)


if __name__ == "__main__":
    logging.disable()
    print(table(ROWS))
