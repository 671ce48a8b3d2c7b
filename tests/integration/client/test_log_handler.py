"""Records of loggers as messages: what is in them, and that no application notices what goes wrong."""

from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from bus import Bus, BusHandler
from bus.client.outbox import Outbox
from bus.errors import SpoolFailed
from tests.integration.client.fake_receiver import FakeReceiver, body_of

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def receiver() -> Iterator[FakeReceiver]:
    with FakeReceiver() as made:
        yield made


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    """Give a logger that has no other handlers, and loses those that a test adds."""
    logger = logging.Logger("shop.orders")  # noqa: LOG001 - outside the tree
    yield logger
    for handler in logger.handlers:
        handler.close()


def fail(text: str) -> None:
    raise ValueError(text)


def logged(receiver: FakeReceiver, count: int) -> list[dict[str, Any]]:
    receiver.wait(lambda: len(receiver.taken) >= count)
    assert len(receiver.taken) == count
    return [json.loads(body_of(line)) for line in receiver.taken]


def test_a_record_has_what_a_person_looks_for(receiver: FakeReceiver, tmp_path: Path, log: logging.Logger) -> None:
    log.addHandler(BusHandler("logs", receiver.url, spool=tmp_path, source="shop", level="INFO"))
    log.debug("not sent")
    try:
        fail("the sku is unknown")
    except ValueError:
        log.exception("order %d is stuck", 42, extra={"order": 42, "lines": [{"sku": "A-1"}], "path": tmp_path})
    (found,) = logged(receiver, 1)
    (line,) = receiver.taken
    assert (line["destination"], line["source"], line["content_type"]) == ("logs", "shop", "application/json")
    assert (found["level"], found["logger"], found["message"]) == ("ERROR", "shop.orders", "order 42 is stuck")
    assert (found["file"], found["function"]) == (__file__, "test_a_record_has_what_a_person_looks_for")
    assert found["exception"].endswith("ValueError: the sku is unknown")
    assert found["extra"] == {"order": 42, "lines": [{"sku": "A-1"}], "path": str(tmp_path)}
    assert found["time"].endswith("Z")


def test_it_is_configured_as_others_are(receiver: FakeReceiver, tmp_path: Path) -> None:
    own = {"destination": "logs", "url": receiver.url, "spool": str(tmp_path)}
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"short": {"format": "%(levelname)s: %(message)s"}},
            "handlers": {"bus": {"class": "bus.BusHandler", "level": "WARNING", "formatter": "short", **own}},
            "loggers": {"shop.configured": {"handlers": ["bus"], "propagate": False}},
        }
    )
    logger = logging.getLogger("shop.configured")
    try:
        logger.warning("low on %s", "paper")
        assert logged(receiver, 1)[0]["message"] == "WARNING: low on paper"
    finally:
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
            handler.close()


def test_what_the_disk_refuses_is_counted_and_told_once(
    tmp_path: Path, log: logging.Logger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(self: Outbox, prepared: object) -> None:
        raise SpoolFailed("the disk failed")

    handler = BusHandler("logs", NOWHERE, spool=tmp_path)
    log.addHandler(handler)
    with monkeypatch.context() as patched:
        patched.setattr(Outbox, "append", refuse)
        for number in range(3):
            log.error("%d", number)
    assert handler.lost == 3
    assert capsys.readouterr().err.count("Logging error") == 1
    log.error("it is well again")
    log.error("%d", "no number")
    assert handler.lost == 4
    assert "no number" in capsys.readouterr().err


def test_the_sdk_s_own_records_are_not_sent(receiver: FakeReceiver, tmp_path: Path) -> None:
    """A handler of the root gets them, those of its own thread and of the daemon's."""
    root = logging.getLogger()
    handler = BusHandler("logs", NOWHERE, spool=tmp_path / "away")
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        with Bus(NOWHERE, spool=tmp_path / "other", backoff_first=0.01) as bus:
            bus.send("a", 1)
            bus.flush(0.2)
        logging.getLogger("httpx").info("what an application's own client asks")
        logging.getLogger("bus.client").warning("so does the SDK")
        assert handler._bus is not None
        assert handler._bus.pending == 1  # what httpx logs for an application
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()


class _LogsAgain:
    """A value whose text is made while a record is stored, and logs."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def __str__(self) -> str:
        self._logger.error("from inside")
        return "told"


def test_what_is_logged_while_a_record_is_stored_goes_round_once(
    receiver: FakeReceiver, tmp_path: Path, log: logging.Logger
) -> None:
    log.addHandler(BusHandler("logs", receiver.url, spool=tmp_path))
    log.error("%s", _LogsAgain(log))
    assert logged(receiver, 1)[0]["message"] == "told"


def test_nothing_is_without_bounds(receiver: FakeReceiver, tmp_path: Path, log: logging.Logger) -> None:
    log.addHandler(BusHandler("logs", receiver.url, spool=tmp_path))
    extra = {f"x{number}": number for number in range(80)}
    extra |= {"x0": "y" * 10_000, "x1": ["z" * 10_000], "x2": float("nan"), "x3": 2**70}
    extra |= {"x4": {1: {2, 3}}, "x5": "\ud800"}
    try:
        fail("e" * 100_000)
    except ValueError:
        log.exception("%s\ud800", "m" * 100_000, extra=extra)
    (found,) = logged(receiver, 1)
    assert len(found["message"]) < 33_000
    assert len(found["exception"]) < 66_000
    assert len(found["extra"]) == 50
    assert all(len(found["extra"][name]) < 4_100 for name in ("x0", "x1"))
    assert (found["extra"]["x2"], found["extra"]["x3"], found["extra"]["x5"]) == ("nan", str(2**70), "?")


def test_threads_share_an_fsync(tmp_path: Path, log: logging.Logger, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Barrier(4)
    append = Outbox.append

    def together(self: Outbox, prepared: Any) -> None:
        inside.wait(30)  # which one lock around all would not let happen
        append(self, prepared)

    handler = BusHandler("logs", NOWHERE, spool=tmp_path)
    log.addHandler(handler)
    monkeypatch.setattr(Outbox, "append", together)
    threads = [Thread(target=log.error, args=("%d", number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert handler.lost == 0


def test_an_application_s_bus_stays_open(receiver: FakeReceiver, tmp_path: Path, log: logging.Logger) -> None:
    with Bus(receiver.url, spool=tmp_path) as bus:
        handler = BusHandler("logs", bus=bus)
        log.addHandler(handler)
        log.error("one")
        handler.close()
        log.error("after its end")
        assert logged(receiver, 1)
        bus.send("orders", 1)
        assert bus.flush(60)
