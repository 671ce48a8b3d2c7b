"""Options of a Bus."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bus import Bus, InvalidDestination, MessageTooLarge
from bus.client.options import LARGEST_BODY
from bus.domain.times import DAY
from bus.errors import BusError, ConfigurationError, InvalidMessage, SpoolClosed
from bus.testing.clock import ManualClock


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8700", "ftp://x", "http://", "http:///x", "http://[x", "http://℀.example", "http://x:a"]
)
def test_an_impossible_url_is_refused_at_once(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as error:
        Bus(url, spool=tmp_path)
    assert error.value.hint


@pytest.mark.parametrize("values", [{"max_bytes": 0}, {"max_bytes": 1 << 30}, {"timeout": 0}, {"sweep_seconds": 0}])
def test_impossible_values_are_refused(values: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        Bus("http://x", spool=tmp_path, **values)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": b"http://x"}, "url: expected str, got bytes"),
        ({"api_key": 5}, "api_key: expected str or None, got int"),
        ({"max_bytes": 1.5}, "max_bytes: expected bytes, an int, got float"),
        ({"timeout": "5s"}, "timeout: expected seconds, a number, got str"),
    ],
)
def test_values_of_another_type_are_named(given: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=told):
        Bus(**{"url": "http://x", "spool": tmp_path, **given})


def test_an_impossible_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidMessage):
        Bus("http://x", spool=tmp_path, source="a\n")


def test_making_one_touches_nothing(tmp_path: Path) -> None:
    root = tmp_path / "spool"
    with Bus("http://127.0.0.1:9", spool=root) as bus:
        assert (bus.pending, bus.rejected, bus.flush()) == (0, 0, True)
    assert not root.exists()


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("", {}), InvalidDestination),
        (("../x", {}), InvalidDestination),
        (("a" * 129, {}), InvalidDestination),
        (("a\n", {}), InvalidDestination),
        (("a", b"x" * 11), MessageTooLarge),
        (("a", "ü" * 6), MessageTooLarge),
        (("a", list(range(10))), MessageTooLarge),
        (("a", object()), InvalidMessage),
        (("a", b"x" * 7, {"b": "xyz"}), MessageTooLarge),
        (("a", b"", {"b": "y" * 8_193}), InvalidMessage),
    ],
)
def test_a_wrong_message_is_refused_and_nothing_is_stored(
    arguments: tuple[Any, ...], kind: type[BusError], tmp_path: Path
) -> None:
    code, message, *headers = arguments
    with Bus("http://127.0.0.1:9", spool=tmp_path / "spool", max_bytes=10) as bus, pytest.raises(kind):
        bus.send(code, message, headers=headers[0] if headers else None)
    assert not (tmp_path / "spool").exists()


def test_headers_beyond_a_request_are_too_large(tmp_path: Path) -> None:
    headers = {f"x-{number}": '"' * 8_192 for number in range(64)}  # twice as long in a line
    body = bytes(LARGEST_BODY - 64 * 8_200)
    made = Bus("http://127.0.0.1:9", spool=tmp_path / "spool", max_bytes=LARGEST_BODY)
    with made as bus, pytest.raises(MessageTooLarge, match="line"):
        bus.send("a", body, headers=headers)


def test_a_closed_bus_says_so(tmp_path: Path) -> None:
    bus = Bus("http://127.0.0.1:9", spool=tmp_path)
    bus.close()
    bus.close()
    with pytest.raises(SpoolClosed):
        bus.send("a", {})


def test_flush_waits_for_what_was_sent_before_the_clock_was_put_back(tmp_path: Path) -> None:
    clock = ManualClock()
    with Bus("http://127.0.0.1:9", spool=tmp_path, clock=clock) as bus:
        bus.send("orders", 1)
        clock.jump(-DAY)
        assert not bus.flush(0)
