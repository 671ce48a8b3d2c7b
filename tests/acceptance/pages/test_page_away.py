"""While the bus does not answer a page says so, and whatever page was wanted comes by itself once it does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.looking import Looker
from tests.harness.bus_process import BusProcess
from tests.harness.waiting import wait_until


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


@contextmanager
def _without_store(port: int) -> Iterator[Counter[tuple[str, str]]]:
    """Answer in place of a bus whose store is away; yields how often each method and path was asked for."""
    asked: Counter[tuple[str, str]] = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.command, self.path] += 1
            is_alive = self.path == "/healthz"
            content = b"{}" if is_alive else b'{"status": 503, "detail": "the store does not answer"}'
            self.send_response(200 if is_alive else 503)
            self.send_header("content-type", "application/problem+json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_HEAD = do_GET  # noqa: N815 - as http.server calls it

        def log_message(self, *_: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield asked
        finally:
            server.shutdown()
            thread.join()


def test_of_a_part_that_is_away_the_page_says_which_and_stays(look: Look, bus: BusProcess) -> None:
    looker = look(bus)
    page = looker.open("/find")
    page.wait_for_function("navigator.serviceWorker.ready.then(() => !!navigator.serviceWorker.controller)")
    bus.kill()
    loads: list[str] = []
    with _without_store(bus.port) as asked:
        page.on("domcontentloaded", lambda shown: loads.append(shown.url))
        page.goto(f"{bus.url}/admin/destinations")
        expect(page.get_by_text("the store does not answer")).to_be_visible()
        expect(page.get_by_role("heading", name="A part of the bus is away")).to_be_visible()
        head = ("HEAD", "/admin/destinations")
        wait_until(lambda: asked[head] > 3, within=10, what="it is waited for")
        expect(page.get_by_text("the store does not answer")).to_be_visible()
        assert len(loads) == 1
    bus.start()
    expect(page.get_by_role("link", name="orders").first).to_be_visible()
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
