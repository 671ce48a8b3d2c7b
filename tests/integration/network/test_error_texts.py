"""Texts of network errors, from real sockets and TLS handshakes: no class name, error number or place in a library."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import trustme

from bus.error_texts import Phase, closed_early, error_text, peer_name, plain_text, timed_out
from bus.errors import StoreUnavailable
from bus.network.certificates import end_of_validity, with_expiry_date

EXPIRED = datetime(2020, 2, 3, tzinfo=UTC)
REFUSED = "[Errno 111] Connect call failed ('%s', 80)"
RAW = re.compile(r"\[Errno|_ssl\.c|\[SSL|Error\b|Timeout\b|Exception\b|<\w+>")


@contextlib.contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """Have a server that treats each of its connections so; yield its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def run() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        serve(connection)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def reset(connection: socket.socket) -> None:
    connection.recv(10)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def close(connection: socket.socket) -> None:
    connection.recv(65536)


def close_in_the_body(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf")


def stay_silent(connection: socket.socket) -> None:
    while connection.recv(65536):
        pass


def with_certificate(certificate: trustme.LeafCert) -> Callable[[socket.socket], None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)

    def serve(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)

    return serve


def failure(url: str, authority: trustme.CA | None = None, timeout: float = 5.0) -> str:
    """Return the text of the error of a request, which is the same over blocking and other sockets."""
    context = with_expiry_date(ssl.create_default_context())
    if authority is not None:
        authority.configure_trust(context)
    with httpx.Client(verify=context, timeout=timeout, trust_env=False) as client:
        with pytest.raises(httpx.HTTPError) as raised:
            client.get(url)
        text = str(error_text(raised.value))
    assert not RAW.search(text), text
    return text


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.mark.parametrize(
    ("serve", "text"),
    [
        (reset, "connection reset by 127.0.0.1:PORT"),
        (close, "connection closed by 127.0.0.1:PORT before the response"),
        (close_in_the_body, "connection closed by 127.0.0.1:PORT while reading the response"),
        (stay_silent, "timed out after 0.5 s waiting for the response"),
    ],
)
def test_peer_that_fails(serve: Callable[[socket.socket], None], text: str) -> None:
    with peer(serve) as port:
        assert failure(f"http://127.0.0.1:{port}/", timeout=0.5) == text.replace("PORT", str(port))


def test_closed_port() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        assert failure(f"http://127.0.0.1:{port}/") == f"connection refused by 127.0.0.1:{port}"


def test_unknown_name() -> None:
    assert failure("http://unknown.invalid/") in (
        "DNS: unknown.invalid not found",
        "DNS: no name server answered for unknown.invalid",
    )


@pytest.mark.parametrize(
    ("name", "not_after", "is_trusted", "text"),
    [
        ("localhost", EXPIRED, True, "TLS: certificate expired on 2020-02-03"),
        ("other.example", None, True, "TLS: certificate not valid for localhost"),
        ("localhost", None, False, "TLS: certificate of an unknown authority"),
    ],
)
def test_certificate_that_is_refused(
    authority: trustme.CA, name: str, not_after: datetime | None, is_trusted: bool, text: str
) -> None:
    begin = datetime(2019, 1, 1, tzinfo=UTC) if not_after else None
    certificate = authority.issue_cert(name, not_before=begin, not_after=not_after)
    with peer(with_certificate(certificate)) as port:
        assert failure(f"https://localhost:{port}/", authority if is_trusted else None) == text


def test_self_signed_certificate(authority: trustme.CA) -> None:
    serve_as_authority = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with authority.cert_pem.tempfile() as certificate, authority.private_key_pem.tempfile() as key:
        serve_as_authority.load_cert_chain(certificate, key)

    def serve(connection: socket.socket) -> None:
        with serve_as_authority.wrap_socket(connection, server_side=True):
            pass

    with peer(serve) as port:
        assert failure(f"https://localhost:{port}/") == "TLS: self-signed certificate"


@pytest.mark.parametrize(
    ("serve", "text"),
    [
        (
            lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
            "TLS: localhost:PORT does not use TLS",
        ),
        (close, "TLS: localhost:PORT closed the connection during the handshake"),
        (stay_silent, "timed out after 0.5 s in the TLS handshake with localhost:PORT"),
    ],
)
def test_handshake_that_fails(serve: Callable[[socket.socket], None], text: str) -> None:
    with peer(serve) as port:
        found = failure(f"https://localhost:{port}/", timeout=0.5)
        assert found == text.replace("PORT", str(port))


async def test_time_out_of_an_asynchronous_handshake() -> None:
    with peer(stay_silent) as port:
        async with httpx.AsyncClient(timeout=0.5, trust_env=False) as client:
            with pytest.raises(httpx.ConnectTimeout) as raised:
                await client.get(f"https://localhost:{port}/")
    assert str(error_text(raised.value)) == f"timed out after 0.5 s in the TLS handshake with localhost:{port}"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "raw", "/data/spool.db"), "no space left on device: /data/spool.db"),
        (ConnectionResetError(), "connection reset by a.example:80"),
        (OSError(errno.EHOSTUNREACH, "raw"), "no route to a.example:80"),
        (TimeoutError(), "no answer in time"),
        (StoreUnavailable("the store is unavailable"), "the store is unavailable"),
        (ExceptionGroup("all", [ValueError("x"), ConnectionRefusedError()]), "connection refused by a.example:80"),
        (type("KafkaConnectionError", (Exception,), {})(), "kafka connection"),
        (ValueError("two\nlines"), "two lines"),
        (KeyError("lines"), "key lines is missing"),
        (type("ProducerClosed", (Exception,), {"__str__": lambda _: "ProducerClosed"})(), "producer closed"),
        (OSError(0, "Error"), "Error"),
        (
            OSError(f"Multiple exceptions: {REFUSED % '::1'}, {REFUSED % '127.0.0.1'}"),
            "connection refused by a.example:80",
        ),
        (socket.gaierror(socket.EAI_NONAME, "raw"), "DNS: a.example not found"),
        (socket.gaierror(socket.EAI_AGAIN, "raw"), "DNS: no name server answered for a.example"),
        (socket.gaierror(socket.EAI_FAIL, "failure"), "DNS: a.example not resolved: failure"),
        (ssl.SSLError(1, "no reason"), "TLS: connection to a.example:80 failed: no reason"),
    ],
)
def test_errors_without_a_socket(error: Exception, text: str) -> None:
    assert str(error_text(error, "a.example:80")) == text


@pytest.mark.parametrize("cause", [None, ValueError("too long")])
def test_an_error_raised_while_another_is_handled(tmp_path: Path, cause: Exception | None) -> None:
    def read() -> bytes:
        try:
            return (tmp_path / "missing").read_bytes()
        except FileNotFoundError:
            raise LookupError("no such run") from cause

    with pytest.raises(LookupError) as raised:
        read()
    assert error_text(raised.value) == "no such run"


def test_damaged_record_of_tls(authority: trustme.CA) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)

    def serve(connection: socket.socket) -> None:
        with server.wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)
            os.write(secured.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))  # data whose check does not fit
            secured.recv(1)

    with (
        peer(serve) as port,
        socket.create_connection(("127.0.0.1", port), 10) as connection,
        client.wrap_socket(connection, server_hostname="localhost") as secured,
    ):
        secured.sendall(b"x")
        with pytest.raises(ssl.SSLError) as raised:
            secured.recv(1)
    text = "TLS: connection to localhost:80 failed: decryption failed or bad record mac"
    assert str(error_text(raised.value, "localhost:80")) == text


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("10.0.0.7:9: [Errno 111] Connection refused (limit 5)", "connection refused by 10.0.0.7:9 (limit 5)"),
        ("mongo.example:27017: [Errno -2] Name or service not known", "DNS: mongo.example not found"),
        ("[Error 29] TopicAuthorizationFailedError: orders", "topic authorization failed: orders"),
        ("ValueError: too long", "too long"),
        ("[Errno 0] Error", "Error"),
        ("a.example:80: [Errno -6] ai_family not supported", "DNS: a.example not resolved: ai_family not supported"),
        ("_ssl.c:975: The handshake operation timed out", "The handshake operation timed out"),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:992)", "wrong version number"),
        ("Error while reading", "Error while reading"),
    ],
)
def test_texts_of_libraries(raw: str, text: str) -> None:
    assert plain_text(raw) == text


def test_phases() -> None:
    said = [str(timed_out(phase, 10.04, peer_name("::1", 80))) for phase in Phase]
    assert said == [
        "timed out after 10 s resolving [::1]:80",
        "timed out after 10 s connecting to [::1]:80",
        "timed out after 10 s in the TLS handshake with [::1]:80",
        "timed out after 10 s sending the request",
        "timed out after 10 s waiting for the response",
        "timed out after 10 s reading the response",
    ]
    assert str(closed_early(Phase.SEND, "a:80")) == "connection closed by a:80 while sending the request"


@pytest.mark.parametrize("year", [1999, 2049, 2050, 2120])
def test_end_of_validity(authority: trustme.CA, year: int) -> None:
    begin, end = datetime(1990, 1, 1, tzinfo=UTC), datetime(year, 12, 31, 23, 59, tzinfo=UTC)
    pem = authority.issue_cert("a.example", not_before=begin, not_after=end).cert_chain_pems[0].bytes().decode()
    assert end_of_validity(ssl.PEM_cert_to_DER_cert(pem)) == f"{year}-12-31"
    assert end_of_validity(b"none") == ""
