"""A newcomer gets from nothing to a repaired subscriber by pages, and by the commands that they show."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[BusProcess]:
    with BusProcess(tmp_path / "data") as bus:
        yield bus


def test_from_nothing_to_a_repaired_subscriber(look: Look, bus: BusProcess, subscribers: SubscriberProcess) -> None:
    subscribers.configure("/newcomer=fail:1,status:422")
    looker = look(bus)
    page = looker.open()
    page.get_by_role("link", name="Make a destination").click()
    page.get_by_label("Code").fill("order.created")
    page.get_by_role("button", name="Make it").click()
    page.get_by_role("link", name="New subscription").click()
    page.get_by_label("Name", exact=True).fill("shop")
    page.get_by_label("URL").fill(subscribers.url("/newcomer"))
    page.get_by_label("Dead at once after").fill("422")
    page.get_by_role("button", name="Make it").click()
    page.get_by_role("link", name="I have kept it").click()
    page.get_by_role("link", name="order.created").first.click()
    command = page.get_by_label("From a shell", exact=True).inner_text()
    sent = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True, timeout=30)
    assert '"duplicate": false' in sent.stdout
    wait_until(lambda: bus.admin.statuses("order.created")["dead"] == 1, within=30, what="the message is dead")
    page.get_by_role("link", name="Failures").last.click()
    page.get_by_role("link", name="HTTP 422").click()
    expect(page.get_by_text("What helps: it refuses messages as they are")).to_be_visible()
    page.get_by_role("link", name=re.compile("^[0-9a-f]{8}-")).click()
    expect(page.get_by_role("button", name=re.compile("Attempt 1: 422 after")).first).to_be_visible()
    page.get_by_role("link", name="shop", exact=True).last.click()
    subscribers.configure("/newcomer=fail:0")
    page.get_by_role("link", name="Send a sample").click()
    page.get_by_role("button", name="Send it").click()
    expect(page.get_by_role("region", name="Send a sample").get_by_text("200").first).to_be_visible()
    page.get_by_role("link", name="Resend the dead…").click()
    page.get_by_label("Reason").fill("the shop is repaired")
    page.get_by_role("button", name="Resend 1 deliveries").click()
    expect(page.get_by_text("1 selected = 1 delivered + 0 failed + 0 skipped + 0 missing")).to_be_visible()
