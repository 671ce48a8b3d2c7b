"""While the bus does not answer a page says so, and whatever page was wanted comes by itself once it does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.looking import Looker
from tests.harness.bus_process import BusProcess


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[BusProcess]:
    with BusProcess(tmp_path / "data") as bus:
        bus.admin.destination("orders")
        yield bus


@pytest.mark.parametrize(
    ("language", "said"),
    [("en", "The bus does not answer"), pytest.param("zh", "总线没有应答", marks=pytest.mark.proof)],
)
def test_a_bus_that_is_away_is_told_and_waited_for(look: Look, bus: BusProcess, language: str, said: str) -> None:
    looker = look(bus, language=language)
    page = looker.open("/find")
    page.wait_for_function("navigator.serviceWorker.ready.then(() => !!navigator.serviceWorker.controller)")
    bar = page.locator(".pier-lost-bar")
    expect(bar).to_be_hidden()
    bus.kill()
    expect(bar).to_be_visible()
    page.goto(f"{bus.url}/admin/destinations")
    expect(page.get_by_role("heading", name=said)).to_be_visible()
    assert looker.findings() == []
    bus.start()
    expect(page.get_by_role("link", name="orders").first).to_be_visible()
    expect(page).to_have_url(re.compile("/admin/destinations$"))
    _forgive(looker)


def _forgive(looker: Looker) -> None:
    """Take away what browsers say of a server that is gone."""
    looker.troubles[:] = [said for said in looker.troubles if "net::ERR_" not in said and "WebSocket" not in said]


def test_a_page_that_stays_open_goes_on_by_itself(look: Look, bus: BusProcess) -> None:
    looker = look(bus)
    page = looker.open("/destinations")
    bus.kill()
    bar = page.locator(".pier-lost-bar")
    expect(bar).to_be_visible()
    bus.start()
    bus.admin.destination("made-meanwhile")
    expect(bar).to_be_hidden()
    expect(page.get_by_role("link", name="orders").first).to_be_visible()
    _forgive(looker)
