"""An outage is logged once, and so is its end."""

from __future__ import annotations

import logging

import pytest

from bus.telemetry.outage import Outage


def test_an_outage_is_said_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    outage = Outage(logging.getLogger("test"), "due work waits for the store")
    outage.is_over()
    for _ in range(2):
        for error in ("refused", "reset"):
            outage.goes_on(OSError(error))
        outage.is_over()
        outage.is_over()
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "due work waits for the store: refused"),
        ("INFO", "due work waits for the store no more"),
    ] * 2
