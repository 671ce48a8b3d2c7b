"""Producers in the pages: who sends, what waits in their queues, and what of theirs is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from bus import Bus
from tests.acceptance.pages.conftest import Look
from tests.harness.bus_process import BusProcess, run_bus


@pytest.fixture
def senders(open_bus: BusProcess, tmp_path: Path) -> BusProcess:
    """Have the SDK and another program send, some of it to nowhere."""
    open_bus.admin.destination("page.producers")
    open_bus.admin.send("page.producers", b"{}", bus_source="page-till", user_agent="till/2.1").raise_for_status()
    with Bus(open_bus.url, spool=tmp_path / "spool", source="page-shop") as bus:
        for number in range(3):
            bus.send("page.producers", {"n": number})
        bus.send("page.nowhere", {}, biz_id="lost-1")
        bus.flush(timeout=10)
    return open_bus


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), (390, "zh")])
def test_who_sends_and_what_is_refused_is_on_one_page(
    look: Look, senders: BusProcess, width: int, language: str
) -> None:
    looker = look(width=width, language=language)
    page = looker.open("/producers")
    shop = page.get_by_role("row").filter(has_text="page-shop").first
    expect(shop).to_contain_text("pier-python/")
    expect(page.get_by_role("row").filter(has_text="page-till")).to_contain_text("till/2.1")
    refused = page.get_by_role("row").filter(has_text="page.nowhere")
    expect(refused).to_contain_text("404")
    expect(page.get_by_text("bus spool drain --rejected").first).to_be_visible()
    assert not looker.findings()
    assert not looker.is_too_wide()
    senders.admin.send("page.producers", b"{}", bus_source=f"page-late-{width}").raise_for_status()
    expect(page.get_by_role("row").filter(has_text=f"page-late-{width}")).to_be_visible()


def test_the_command_line_says_the_same(senders: BusProcess) -> None:
    ran = run_bus("producers", "--source", "page-till", env={"BUS_URL": senders.url})
    assert ran.returncode == 0, ran.stderr
    assert "till/2.1" in ran.stdout
    assert "page-shop" not in ran.stdout.split("\nrejected\n")[0]
