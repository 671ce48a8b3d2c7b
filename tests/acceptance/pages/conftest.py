"""The pages in a real browser, on a real bus."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
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


class Chromium:
    """One browser for all tests of pages: none of them may be asynchronous, its loop runs in this thread."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._browser: Browser | None = None

    def browser(self) -> Browser:
        """Return the browser, started by whoever asks first."""
        if self._browser is None:
            playwright = self._running.enter_context(sync_playwright())
            path, options = str(need("chromium")), ["--no-sandbox", "--disable-gpu"]
            self._browser = playwright.chromium.launch(executable_path=path, args=options)
            self._running.callback(self._browser.close)
        return self._browser

    def close(self) -> None:
        """End it; whoever asks later gets another."""
        self._running.close()
        self._browser = None


_CHROMIUM: Final = Chromium()


@pytest.hookimpl(trylast=True)  # behind the fixtures of the last test
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Close the browser where the tests of pages end."""
    if nextitem is None or nextitem.path.parent != item.path.parent:
        _CHROMIUM.close()


@pytest.fixture
def chromium() -> Browser:
    """Return the browser of all tests of pages."""
    return _CHROMIUM.browser()


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
