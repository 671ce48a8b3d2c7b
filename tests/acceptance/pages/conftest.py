"""The pages in a real browser, on a real bus."""

from __future__ import annotations

import faulthandler
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from playwright.sync_api import Browser, sync_playwright

from bus.domain.identity import new_id
from tests.acceptance.pages.entering import House, add_user
from tests.acceptance.pages.history import remember
from tests.acceptance.pages.looking import ZONE, Looker
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.servers import need

Look = Callable[..., Looker]


class Kind(NamedTuple):
    """What tells one browser from another: its window, its language, and what its user prefers."""

    width: int
    language: str
    dark: bool
    moving: bool

    def options(self) -> dict[str, Any]:
        """The options of its context."""
        return {
            "viewport": {"width": self.width, "height": 900},
            "locale": "zh-CN" if self.language == "zh" else "en-GB",
            "timezone_id": ZONE,
            "color_scheme": "dark" if self.dark else "light",
            "reduced_motion": "no-preference" if self.moving else "reduce",
        }


_ENDED_WITHIN: Final = 120.0
_OPENED: Final = pytest.StashKey[list[tuple[Kind, Looker]]]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have a test of pages that takes too long end its whole process, of which xdist starts another.

    A signal in the middle of Playwright's loop leaves it broken: whatever closes the browser then waits for ever.
    """
    folder = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(folder):
            item.add_marker(pytest.mark.timeout(method="thread"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have a failure tell what its browsers showed."""
    report = yield
    if report.when == "call" and report.failed:
        report.sections.extend(("browser", looker.story()) for _, looker in item.stash.get(_OPENED, []))
    return report


class Chromium:
    """One browser for all tests of pages: none of them may be asynchronous, its loop runs in this thread."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._browser: Browser | None = None
        self._free: defaultdict[Kind, list[Looker]] = defaultdict(list)

    def browser(self) -> Browser:
        """Return the browser, started by whoever asks first."""
        if self._browser is None:
            playwright = self._running.enter_context(sync_playwright())
            path, options = str(need("chromium")), ["--no-sandbox", "--disable-gpu"]
            self._browser = playwright.chromium.launch(executable_path=path, args=options)
            self._running.callback(self._browser.close)
        return self._browser

    def looker(self, kind: Kind, url: str) -> Looker:
        """Return one who looks at a bus with such a browser, and whom nobody else has."""
        if free := self._free[kind]:
            return free.pop().visit(url)
        return Looker(self.browser().new_context(**kind.options()), url)

    def take_back(self, kind: Kind, looker: Looker, rest: str) -> None:
        """Let somebody else have a browser, where nothing is left of who had it."""
        if looker.leave(rest):
            self._free[kind].append(looker)
        else:
            looker.context.close()

    def close(self) -> None:
        """End it; whoever asks later gets another."""
        self._running.close()
        self._browser = None
        self._free.clear()


_CHROMIUM: Final = Chromium()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """Close the browser where the tests of pages end, and have an ending that takes too long end the process.

    pytest-timeout looks no longer once a test has failed, and a browser may be what does not answer.
    """
    faulthandler.dump_traceback_later(_ENDED_WITHIN, exit=True)
    try:
        yield
    finally:
        if nextitem is None or nextitem.path.parent != item.path.parent:
            _CHROMIUM.close()
        faulthandler.cancel_dump_traceback_later()


@pytest.fixture
def chromium() -> Browser:
    """Return the browser of all tests of pages."""
    return _CHROMIUM.browser()


@pytest.fixture(scope="session")
def tried_id() -> str:
    """Return the id of a message in ``open_bus`` that was attempted very often."""
    return new_id(int(time.time() * 1000))


@pytest.fixture(scope="session")
def open_bus(tmp_path_factory: pytest.TempPathFactory, tried_id: str) -> Iterator[BusProcess]:
    """Run a bus without keys, shared: a test names its destinations after itself."""
    data = tmp_path_factory.mktemp("pages") / "data"
    remember(data, tried_id)
    with BusProcess(data) as process:
        yield process


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Run a closed bus, shared."""
    data = tmp_path_factory.mktemp("closed") / "data"
    password = add_user(data, "root", "admin")
    with BusProcess(data) as bus, House(bus, password) as closed:
        yield closed


@pytest.fixture(scope="session")
def subscribers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SubscriberProcess]:
    """Run a subscriber, shared: a test uses paths of its own."""
    with SubscriberProcess(tmp_path_factory.mktemp("subscribers")) as process:
        yield process


@pytest.fixture
def look(request: pytest.FixtureRequest, open_bus: BusProcess) -> Iterator[Look]:
    """Return what opens a browser of one's own at a bus; errors in a page's scripts fail the test."""
    opened = request.node.stash[_OPENED] = list[tuple[Kind, Looker]]()

    def begin(
        at: BusProcess | None = None,
        *,
        width: int = 1280,
        language: str = "en",
        dark: bool = False,
        moving: bool = False,
    ) -> Looker:
        kind = Kind(width, language, dark, moving)
        looker = _CHROMIUM.looker(kind, (at or open_bus).url)
        opened.append((kind, looker))
        return looker

    yield begin
    troubles = [trouble for _, looker in opened for trouble in looker.troubles]
    for kind, looker in opened:
        _CHROMIUM.take_back(kind, looker, f"{open_bus.url}/healthz")
    assert not troubles
