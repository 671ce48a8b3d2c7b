"""Requirements of RFC 9112 and RFC 9110 for a client, as responses and their verdicts.

``python -m tests.unit.posters.rfc9112_responses`` prints the table with the verdicts that the poster gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bus.ports.poster import PostFailure
from tests.harness.verdict_table import escaped, markdown
from tests.unit.posters.response_verdicts import OK, Verdict, verdict_of

TWO: Final = b"content-length: 2\r\n"
CLOSE: Final = b"connection: close\r\n"
KEEP: Final = b"connection: keep-alive\r\n"
UNAVAILABLE: Final = b"HTTP/1.1 503 No"
RETRY: Final = b"retry-after: 7\r\n"
CHUNKED: Final = b"transfer-encoding: chunked\r\n"
CHUNKS: Final = b"2\r\nok\r\n0\r\n\r\n"
TOO_LARGE: Final = 200_000
KEPT: Final = 16 * 1024


class Row(NamedTuple):
    """A requirement, a response that shows it, and its verdict.

    Attributes
    ----------
    ends
        The server closes its direction after the response.
    is_sent
        The server has read the whole request.
    deviation
        Why the verdict is not what the section asks for; empty where it is.
    """

    section: str
    requirement: str
    pieces: tuple[bytes, ...]
    verdict: Verdict
    ends: bool = False
    is_sent: bool = True
    deviation: str = ""

    def __str__(self) -> str:
        return f"{self.section} {self.requirement}"


def response(*fields: bytes, status: bytes = b"HTTP/1.1 200 OK", body: bytes = b"") -> bytes:
    """Return a response with these fields and nothing else."""
    return status + b"\r\n" + b"".join(fields) + b"\r\n" + body


def ok(*fields: bytes, status: bytes = b"HTTP/1.1 200 OK") -> bytes:
    """Return a response with two bytes of content."""
    return response(*fields, TWO, status=status, body=b"ok")


def length(value: bytes) -> bytes:
    """Return a response with a Content-Length."""
    return response(b"content-length: " + value + b"\r\n", body=b"ok")


def coded(value: bytes, *fields: bytes, status: bytes = b"HTTP/1.1 200 OK", body: bytes = CHUNKS) -> bytes:
    """Return a response with a Transfer-Encoding."""
    return response(b"transfer-encoding: " + value + b"\r\n", *fields, status=status, body=body)


def chunks(body: bytes) -> bytes:
    """Return a chunked response."""
    return response(CHUNKED, body=body)


def kept(
    section: str,
    requirement: str,
    *pieces: bytes,
    status: int = 200,
    body: bytes = b"ok",
    retry_after: str | None = None,
    deviation: str = "",
) -> Row:
    """Return a row whose response is whole and whose connection is kept."""
    return Row(section, requirement, pieces, Verdict(status, body, retry_after=retry_after), deviation=deviation)


def closed(
    section: str,
    requirement: str,
    *pieces: bytes,
    status: int = 200,
    body: bytes = b"ok",
    is_whole: bool = True,
    ends: bool = False,
    is_sent: bool = True,
    retry_after: str | None = None,
    deviation: str = "",
) -> Row:
    """Return a row whose status counts and whose connection is closed."""
    verdict = Verdict(status, body, None, is_whole, is_kept=False, retry_after=retry_after)
    return Row(section, requirement, pieces, verdict, ends, is_sent, deviation)


def failed(
    section: str,
    requirement: str,
    *pieces: bytes,
    kind: PostFailure = PostFailure.PROTOCOL,
    ends: bool = False,
    deviation: str = "",
) -> Row:
    """Return a row whose response is not taken."""
    verdict = Verdict(None, b"", kind, is_whole=False, is_kept=False)
    return Row(section, requirement, pieces, verdict, ends, deviation=deviation)


STATUS_LINES: Final = [
    kept("9112 4", "A status line is read", OK),
    kept("9112 4", "The reason may be empty", ok(status=b"HTTP/1.1 200 ")),
    kept("9112 4", "The space before an empty reason may be missing", ok(status=b"HTTP/1.1 200")),
    kept("9112 4", "The reason may have bytes over 127", ok(status=b"HTTP/1.1 200 \xe9")),
    kept("9112 4", "The reason is not read", ok(status=b"HTTP/1.1 200 503 Not OK")),
    kept("9112 2.2", "A bare LF may end a line", OK.replace(b"\r\n", b"\n")),
    kept("9112 2.2", "An empty line before the status line may be skipped", b"\r\n" + OK),
    failed("9112 2.2", "A bare CR in the status line is refused", ok(status=b"HTTP/1.1 200 O\rK")),
    *[
        failed("9112 4", "A status has three digits", ok(status=b"HTTP/1.1 " + status))
        for status in (b"20 OK", b"2000 OK", b"200OK", b"abc OK", b"-20 OK", b" 200 OK", b"2", b"")
    ],
    *[
        failed("9112 4", "What does not begin with HTTP is refused", content)
        for content in (
            b"garbage\r\n\r\n",
            b"\x00\x01\x02",
            ok(status=b"ICY 200 OK"),
            ok(status=b"http/1.1 200 OK"),
            b" " + OK,
            b"220 smtp ESMTP\r\n",
        )
    ],
    *[
        failed("9112 2.3", "A version that is not known is refused", ok(status=version + b" 200 OK"))
        for version in (b"HTTP/9.9", b"HTTP/1.10", b"HTTP/2", b"HTTP/1")
    ],
    failed(
        "9110 2.5",
        "A higher minor version is read as the highest that is known",
        ok(status=b"HTTP/1.2 200 OK"),
        deviation="SHOULD be read: the parser knows 1.0 and 1.1 only, and no server sends it",
    ),
    closed("9110 2.5", "The connection of another major version is closed", ok(status=b"HTTP/2.0 200 OK")),
    *[
        kept(
            "9110 15",
            "A status that is not known counts by its class",
            ok(status=b"HTTP/1.1 %d x" % status),
            status=status,
        )
        for status in (299, 399, 499, 599)
    ],
    *[
        kept(
            "9110 15",
            "A status over 599 is a failure of the server",
            ok(status=b"HTTP/1.1 %d x" % status),
            status=status,
        )
        for status in (600, 799, 999)
    ],
    *[failed("9110 15", "A status below 100 is refused", ok(status=b"HTTP/1.1 %03d x" % status)) for status in (0, 99)],
]

FIELDS: Final = [
    *[
        kept("9112 5.2", "A folded line is one", ok(b"x: a" + end + space + b"b\r\n"))
        for end in (b"\r\n", b"\n")
        for space in (b" ", b"\t")
    ],
    kept(
        "9112 5.2",
        "A folded value is joined by spaces",
        ok(b"Retry-AFTER: \r\n\t33 \r\n\t4\r\n", status=UNAVAILABLE),
        status=503,
        retry_after="33 4",
    ),
    *[
        kept(
            "9110 10.2.3",
            "A failure may have Retry-After",
            ok(RETRY, status=b"HTTP/1.1 %d No" % status),
            status=status,
            retry_after="7",
        )
        for status in (302, 429, 503)
    ],
    kept("9110 10.2.3", "Retry-After means nothing in a success", ok(RETRY)),
    kept("9112 5.2", "A folded Content-Length frames the content", length(b"\r\n 2")),
    kept("9112 2.2", "A line that begins with white space before the first field is passed over", ok(b" x: 1\r\n")),
    kept("9112 2.2", "Such a line is no field", ok(b" retry-after: 1\r\n", status=UNAVAILABLE), status=503),
    kept(
        "9112 2.2",
        "Such a line does not frame the content",
        response(b" content-length: 2\r\n", body=b"ok"),
        deviation="MUST be refused or passed over: the parser takes it for a length, of this response only",
    ),
    failed("9112 2.2", "Such a line beside a length is refused", ok(b" content-length: 5\r\n")),
    closed(
        "9112 2.2",
        "Such a line of one space does not end the head",
        response(b" \r\n", RETRY, status=UNAVAILABLE),
        status=503,
        body=RETRY + b"\r\n",
        is_whole=False,
        deviation="MUST be refused or passed over: the parser takes the line for the end of the head",
    ),
    *[
        failed("9112 2.2", "A bare CR in a field is refused", ok(line))
        for line in (b"x: a\rb\r\n", b"x: a\rcontent-length: 5\r\n", b"x\r: a\r\n")
    ],
    kept(
        "9110 5.5",
        "NUL in a value is a space",
        ok(b"retry-after: 1\x002\r\n", status=UNAVAILABLE),
        status=503,
        retry_after="1 2",
    ),
    kept("9110 5.5", "Controls in a value may be kept", ok(b"x: \x01\r\n")),
    kept("9110 5.5", "A value may have bytes over 127", ok(b"x: \xe9\r\n")),
    kept("9112 5", "A value may be empty", ok(b"x:\r\n")),
    kept(
        "9112 5",
        "White space around a value is no part of it",
        ok(b"retry-after: \t7 \t\r\n", status=UNAVAILABLE),
        status=503,
        retry_after="7",
    ),
    kept(
        "9110 5.1",
        "Names are case-insensitive",
        ok(b"RETRY-after:7\r\n", status=UNAVAILABLE),
        status=503,
        retry_after="7",
    ),
    kept(
        "9110 5.1",
        "A name that only ends like another is another one",
        ok(b"x-retry-after: 2\r\n", status=UNAVAILABLE),
        status=503,
    ),
    kept(
        "9112 5.1",
        "White space before the colon of a length may be passed over",
        response(b"content-length : 2\r\n", body=b"ok"),
    ),
    *[
        failed("9110 5.1", "A name is a token", ok(line + b"\r\n"))
        for line in (b": 1", b"x y: 1", b"x(: 1", b"no colon", b"\xff: 1", b"x : 1")
    ],
    failed("9110 5.4", "A head over the limit is refused", ok(b"x: " + b"a" * TOO_LARGE + b"\r\n")),
    failed("9110 5.4", "More fields than the limit are refused", ok(b"x: y\r\n" * 1_000)),
    failed("9110 5.4", "A status line over the limit is refused", b"HTTP/1.1 200 " + b"r" * TOO_LARGE),
    kept("9110 8.4", "Coded content is not decoded", ok(b"content-encoding: gzip\r\n")),
]

INTERIM: Final = [
    *[
        kept("9110 15.2", "An interim response comes before the final one", response(status=b"HTTP/1.1 " + status) + OK)
        for status in (b"100 Continue", b"102 Processing", b"103 Early Hints", b"199 Other")
    ],
    kept(
        "9110 15.2",
        "Several interim responses come before the final one",
        response(status=b"HTTP/1.1 100 C") * 3,
        response(b"link: x\r\n", status=b"HTTP/1.1 103 H") * 2,
        OK,
    ),
    *[
        kept("9112 6.3", "An interim response has no content", response(line, status=b"HTTP/1.1 " + status) + OK)
        for status in (b"100 Continue", b"103 Early Hints")
        for line in (b"content-length: 5\r\n", b"content-length: 0\r\n", CHUNKED)
    ],
    failed(
        "9112 6.3",
        "An interim response that is not registered has no content",
        response(b"content-length: 5\r\n", status=b"HTTP/1.1 199 Other") + OK,
        deviation="MUST end with its head: the parser knows this of 100, 102 and 103 only, which are all in use",
    ),
    kept(
        "9110 15.2",
        "Fields of an interim response are not those of the final one",
        response(b"retry-after: 1\r\n", status=b"HTTP/1.1 103 H") + ok(status=UNAVAILABLE),
        status=503,
    ),
    kept(
        "9112 9.6", "An interim response does not close the connection", response(CLOSE, status=b"HTTP/1.1 103 H") + OK
    ),
    failed(
        "9110 15.2",
        "An interim response is not a response",
        response(status=b"HTTP/1.1 100 C"),
        kind=PostFailure.RESET,
        ends=True,
    ),
    failed("9110 15.2", "Interim responses without an end are refused", response(status=b"HTTP/1.1 100 C") * 3_000),
    *[
        failed(
            "9110 15.2.2",
            "A switch of protocols that was not asked for is refused",
            response(*lines, status=b"HTTP/1.1 101 S") + rest,
        )
        for lines in ((), (b"connection: upgrade\r\n", b"upgrade: websocket\r\n"))
        for rest in (b"", OK)
    ],
    kept(
        "9110 7.8", "An offer of another protocol is passed over", ok(b"connection: upgrade\r\n", b"upgrade: h2c\r\n")
    ),
    kept(
        "9110 15.5.22",
        "A demand for another protocol is a refusal",
        ok(b"connection: upgrade\r\n", b"upgrade: h2c\r\n", status=b"HTTP/1.1 426 U"),
        status=426,
    ),
]

LENGTHS: Final = [
    kept("9112 6.3", "A Content-Length frames the content", OK),
    kept("9112 6.3", "A length of 0 is no content", response(b"content-length: 0\r\n"), body=b""),
    kept("9110 8.6", "Leading zeros are digits", length(b"002")),
    *[
        failed("9112 6.3", "A Content-Length that is no number is refused", length(value))
        for value in (b"", b"+2", b"-2", b"0x2", b"2.0", b"2 2", b"abc")
    ],
    *[
        failed("9110 8.6", "A Content-Length that is too large to count is refused", length(value))
        for value in (b"18446744073709551618", b"9" * 30)
    ],
    *[
        failed("9112 6.3", "Different lengths are refused", length(value))
        for value in (b"2, 3", b"2\r\ncontent-length: 3", b"3\r\ncontent-length: 2")
    ],
    *[
        failed("9110 8.6", "Equal lengths may be refused", length(value))
        for value in (b"2, 2", b"2\r\ncontent-length: 2")
    ],
    *[
        kept(
            "9112 6.3",
            "A 204 and a 304 have no content whatever their fields announce",
            response(line, status=b"HTTP/1.1 " + status),
            status=int(status[:3]),
            body=b"",
        )
        for status in (b"204 No Content", b"304 Not Modified")
        for line in (b"", b"content-length: 5\r\n", CHUNKED)
    ],
    *[
        closed(
            "9112 6.3",
            "What follows the head of a 204 or a 304 is not its content",
            response(line, status=b"HTTP/1.1 " + status, body=rest),
            status=int(status[:3]),
            body=b"",
        )
        for status in (b"204 No Content", b"304 Not Modified")
        for line, rest in ((b"", b"hello"), (b"content-length: 5\r\n", b"hello"), (CHUNKED, b"0\r\n\r\n"))
    ],
    closed("9112 6.3", "Without a length the content ends with the connection", response(body=b"ok"), ends=True),
    closed("9112 6.3", "Without a length the content may be empty", response(), body=b"", ends=True),
    *[
        closed(
            "9112 6.3",
            "A field of the connection is no length",
            response(line, status=version + b" 200 OK", body=b"ok"),
            ends=True,
        )
        for version in (b"HTTP/1.1", b"HTTP/1.0")
        for line in (KEEP, CLOSE)
    ],
    closed(
        "9112 6.3",
        "Without a length the content may end with the connection after an interim response",
        response(status=b"HTTP/1.1 100 C") + response(body=b"ok"),
        ends=True,
    ),
    closed(
        "9112 8", "Without a length and without an end the content is not whole", response(body=b"ok"), is_whole=False
    ),
    *[
        closed(
            "9112 8",
            "Content that is shorter than its length is not whole",
            response(b"content-length: 5\r\n", status=b"HTTP/1.1 %d x" % status, body=b"ok"),
            status=status,
            is_whole=False,
            ends=True,
        )
        for status in (200, 202, 503)
    ],
    closed(
        "9112 8",
        "Content that does not come is not whole",
        response(b"content-length: 5\r\n", status=UNAVAILABLE),
        status=503,
        body=b"",
        is_whole=False,
    ),
    closed(
        "9112 8",
        "Content over the limit is not read to its end",
        response(b"content-length: 999999\r\n", body=b"z" * 100_000),
        body=b"z" * KEPT,
        is_whole=False,
    ),
    *[
        failed("9112 8", "A response without a whole head is none", content, kind=PostFailure.RESET, ends=True)
        for content in (b"", b"HTTP/1.1 20", OK[:17], OK[:-4], response(status=b"HTTP/1.1 204 No")[:-2])
    ],
    failed("9112 8", "A head that does not come to its end in time is none", OK[:-4], kind=PostFailure.TIMEOUT),
]

CODINGS: Final = [
    kept("9112 7.1", "Chunked content is read", coded(b"chunked")),
    kept(
        "9112 7.1", "Content of several chunks is read", chunks(b"2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"), body=b"hello"
    ),
    kept("9112 7", "Names of codings are case-insensitive", coded(b"CHUNKED")),
    *[
        kept("9110 5.6.1", "Empty elements of a list are passed over", coded(value))
        for value in (b", chunked", b" ,\tchunked")
    ],
    *[
        kept("9112 6.3", "Chunked at the end frames the content", coded(value))
        for value in (b"gzip, chunked", b"gzip\r\ntransfer-encoding: chunked")
    ],
    *[
        closed(
            "9112 6.3",
            "Without chunked at the end the content ends with the connection",
            coded(value, body=b"ok"),
            ends=True,
            is_whole=False,
        )
        for value in (b"gzip", b"identity", b"xchunked", b"chunked, gzip", b"chunked\r\ntransfer-encoding: gzip")
    ],
    *[
        failed("9112 6.3", "A length beside chunks may be refused", content)
        for content in (response(CHUNKED, TWO, body=CHUNKS), response(TWO, CHUNKED, body=CHUNKS))
    ],
    *[
        closed(
            "9112 6.1",
            "The connection of a chunked response of HTTP/1.0 is closed",
            coded(b"chunked", *fields, status=b"HTTP/1.0 200 OK"),
        )
        for fields in ((), (KEEP,))
    ],
    *[
        kept("9112 7.1.1", "Extensions of a chunk that are not known are passed over", chunks(body))
        for body in (
            b"2;a=b\r\nok\r\n0;c\r\n\r\n",
            b'2;a="b;\\"c"\r\nok\r\n0\r\n\r\n',
            b"2;" + b"a" * 10_000 + b"\r\nok\r\n0\r\n\r\n",
        )
    ],
    closed(
        "9112 7.1.1",
        "Extensions over the limit are not read to their end",
        chunks(b"2\r\nok\r\n1;" + b"a" * TOO_LARGE),
        is_whole=False,
    ),
    *[
        kept(
            "9112 7.1",
            "The size of a chunk is hexadecimal in either case",
            chunks(size + b"\r\n0123456789\r\n0\r\n\r\n"),
            body=b"0123456789",
        )
        for size in (b"A", b"a", b"00a")
    ],
    kept("9112 7.1", "White space behind the size of a chunk may be passed over", chunks(b"2 \r\nok\r\n0\r\n\r\n")),
    *[
        closed(
            "9112 7.1",
            "A size that cannot be read ends the content",
            chunks(size + b"\r\nok\r\n0\r\n\r\n"),
            body=b"",
            is_whole=False,
        )
        for size in (b"zz", b"-2", b"+2", b"0x2", b"", b"f" * 18)
    ],
    *[
        closed(
            "9112 7.1", "A chunk that does not end where its size says ends the content", chunks(body), is_whole=False
        )
        for body in (b"2\r\nokXX", b"2\r\nok\r\nx", b"2\r\nokk\r\n0\r\n\r\n")
    ],
    kept(
        "9110 6.5.1",
        "Trailers are not merged into the fields of the head",
        coded(b"chunked", status=UNAVAILABLE, body=b"2\r\nok\r\n0\r\nretry-after: 5\r\nx: y\r\n\r\n"),
        status=503,
    ),
    closed(
        "9110 6.5.1",
        "A trailer that frames a message ends the content",
        chunks(b"2\r\nok\r\n0\r\ncontent-length: 9\r\n\r\n"),
        is_whole=False,
    ),
    closed(
        "9110 6.5.1",
        "Trailers over the limit are not read to their end",
        chunks(b"2\r\nok\r\n0\r\nx: " + b"y" * TOO_LARGE),
        is_whole=False,
    ),
    *[
        closed("9112 8", "Chunked content without its last chunk is not whole", content, is_whole=False, ends=True)
        for content in (
            chunks(b"5\r\nok"),
            chunks(b"2\r\nok\r\n"),
            chunks(b"2\r\nok\r\n0\r\n"),
            chunks(b"2\r\nok\r\n0\r\nx: y\r\n"),
            coded(b"gzip, Chunked ", body=b"5\r\nok"),
            response(status=b"HTTP/1.1 103 H") + chunks(b"5\r\nok"),
        )
    ],
]

CONNECTIONS: Final = [
    kept("9112 9.3", "A connection of HTTP/1.1 is kept", OK),
    *[
        closed("9112 9.6", "Nothing is sent after a response with close", ok(lines))
        for lines in (CLOSE, b"Connection: keep-alive, CLOSE\r\n", KEEP + CLOSE)
    ],
    closed("9112 9.3", "A connection of HTTP/1.0 is closed", ok(status=b"HTTP/1.0 200 OK")),
    kept("9112 9.3", "A connection of HTTP/1.0 is kept if the server says so", ok(KEEP, status=b"HTTP/1.0 200 OK")),
    *[
        closed("9112 9.3", "What follows a response is not the next one", OK + rest)
        for rest in (OK, b"garbage", b"H", b"\r\n" + OK, response(status=b"HTTP/1.1 100 C"), b"\x00")
    ],
    closed("9112 9.3", "What follows a chunked response is not the next one", coded(b"chunked") + OK),
    closed("9112 9.3", "What follows a response with close is not the next one", ok(CLOSE) + OK),
    closed(
        "9112 9.5",
        "A response before the request was sent closes the connection",
        ok(status=b"HTTP/1.1 413 No"),
        status=413,
        is_sent=False,
    ),
    closed(
        "9112 9.5",
        "A response before the request was sent may close the connection",
        ok(CLOSE, status=b"HTTP/1.1 413 No"),
        status=413,
        is_sent=False,
        ends=True,
    ),
    *[
        kept(
            "9110 15.4",
            "A redirect is not followed",
            ok(b"location: http://10.0.0.1/\r\n", status=b"HTTP/1.1 %d x" % status),
            status=status,
        )
        for status in (300, 301, 302, 303, 305, 307, 308)
    ],
    *[
        kept(
            "9110 15.5",
            "A refusal is not repeated by the connection",
            ok(status=b"HTTP/1.1 %d x" % status),
            status=status,
        )
        for status in (401, 407, 408, 417, 421, 429)
    ],
]

ROWS: Final[list[Row]] = [*STATUS_LINES, *FIELDS, *INTERIM, *LENGTHS, *CODINGS, *CONNECTIONS]


def table(rows: Sequence[Row]) -> str:
    """Return the rows with the verdicts that the poster gives, and where they are others than the rows have."""
    lines = []
    for row in rows:
        found = verdict_of(row.pieces, ends=row.ends, is_sent=row.is_sent)
        remark = row.deviation if found == row.verdict else f"NOT AS EXPECTED: {row.verdict}"
        lines.append((row.section, row.requirement, f"`{escaped(b''.join(row.pieces))}`", str(found), remark))
    return markdown(("section", "requirement", "input", "verdict", "deviation"), lines)


if __name__ == "__main__":
    print(table(ROWS))
