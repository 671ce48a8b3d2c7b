"""The pages in a real browser, on a real bus."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.acceptance.pages.looking import ZONE, Looker
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.servers import need

Look = Callable[..., Looker]
_OPENED: Final = pytest.StashKey[list[Looker]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have a failure tell what its browsers showed."""
    report = yield
    if report.when == "call" and report.failed:
        report.sections.extend(("browser", looker.story()) for looker in item.stash.get(_OPENED, []))
    return report


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Run one browser for the tests of a module: none of them may be asynchronous, its loop runs in this thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(need("chromium")), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def open_bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusProcess]:
    """Run a bus without keys, shared: a test names its destinations after itself."""
    with BusProcess(tmp_path_factory.mktemp("pages") / "data") as process:
        yield process


@pytest.fixture(scope="session")
def subscribers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubscriberProcess]:
    """Run a subscriber, shared: a test uses paths of its own."""
    with SubscriberProcess(tmp_path_factory.mktemp("subscribers")) as process:
        yield process


@pytest.fixture
def look(request: pytest.FixtureRequest, chromium: Browser, open_bus: BusProcess) -> Iterator[Look]:
    """Return what opens a browser of one's own at a bus; errors in a page's scripts fail the test."""
    opened = request.node.stash[_OPENED] = list[Looker]()

    def begin(at: BusProcess | None = None, *, width: int = 1280, language: str = "en", dark: bool = False) -> Looker:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            locale="zh-CN" if language == "zh" else "en-GB",
            timezone_id=ZONE,
            color_scheme="dark" if dark else "light",
        )
        looker = Looker(context, (at or open_bus).url)
        opened.append(looker)
        return looker

    yield begin
    troubles = [trouble for looker in opened for trouble in looker.troubles]
    for looker in opened:
        looker.context.close()
    assert not troubles


@pytest.fixture
def page(look: Look) -> Page:
    """Return a page of a browser at the shared bus."""
    return look().page
