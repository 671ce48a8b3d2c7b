"""Alarm channels whose services are hostile: bounded in time and bytes, outside of the bus's own process."""

from __future__ import annotations

import resource
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from bus.domain.health.alarm import Severity
from bus.domain.health.channels import Channel
from bus.errors import ConfigurationError
from compensator.alarms import sending
from compensator.alarms.sending import AppriseSending
from compensator.alarms.texts import Text
from tests.harness.alarm_channels import AlarmChannels

TEXT = Text("title", "body")
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"


@contextmanager
def service(answer: Callable[[socket.socket], None]) -> Iterator[Channel]:
    """Yield a channel to a service that answers so, once."""

    def serve() -> None:
        with suppress(OSError), listener.accept()[0] as peer:
            peer.recv(65_536)
            answer(peer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        serving = threading.Thread(target=serve)
        serving.start()
        yield Channel(name="ops", url=f"json://127.0.0.1:{listener.getsockname()[1]}/x")
        serving.join()


def endless(peer: socket.socket) -> None:
    peer.sendall(ENDLESS)
    while True:
        peer.sendall(bytes(1_000_000))


async def told(channel: Channel) -> str:
    return str(await AppriseSending([channel]).tell(channel, TEXT, Severity.WARNING))


async def test_an_answer_without_an_end_costs_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with service(endless) as channel:
        assert await told(channel) == ""
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


async def test_an_answer_that_comes_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "WITHIN", 5.0)
    over = threading.Event()

    def slow(peer: socket.socket) -> None:
        while not over.wait(0.2):
            peer.sendall(b"H")

    with service(slow) as channel:
        assert await told(channel) == "it did not answer within 5 s"
        over.set()


async def test_a_redirect_is_not_followed() -> None:
    with AlarmChannels() as channels:

        def lead_away(peer: socket.socket) -> None:
            to = channels.url("other").replace("json:", "http:").encode()
            peer.sendall(b"HTTP/1.1 307 Go\r\nlocation: " + to + b"\r\ncontent-length: 0\r\n\r\n")

        with service(lead_away) as channel:
            assert await told(channel) == "its service did not take it"
        assert channels.told == []


async def test_what_fails_is_said() -> None:
    with service(lambda peer: peer.sendall(b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n")) as channel:
        assert await told(channel) == "its service did not take it"


def test_an_unknown_url_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match=r"alarm_channels\.other"):
        AppriseSending([Channel(name="ops", url="json://a"), Channel(name="other", url="nonsense://a")])
