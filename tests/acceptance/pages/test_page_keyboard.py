"""A message is found, understood and resent without a mouse."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.sending import send, settled
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess

MOST_TABS = 60


def reach(page: Page, wanted: Locator) -> None:
    """Press Tab until an element has the focus."""
    for _ in range(MOST_TABS):
        if wanted.evaluate("element => element === document.activeElement || element.contains(document.activeElement)"):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"{wanted} is not reached with {MOST_TABS} tabs")


def press(page: Page, wanted: Locator, key: str = "Enter") -> None:
    expect(wanted).to_be_visible()
    reach(page, wanted)
    page.keyboard.press(key)


def test_find_trace_and_resend_take_no_mouse(look: Look, open_bus: BusProcess, subscribers: SubscriberProcess) -> None:
    code = "page.keys"
    subscribers.configure(f"/{code}=fail:1,status:500")
    open_bus.admin.destination(code)
    open_bus.admin.subscription(code, "erp", subscribers.url(f"/{code}"), retry=["1s"], retry_max_attempts=1)
    sent = send(open_bus, code, {"order": 42}, biz_id="by-keys")
    settled(open_bus, sent, "dead")
    page = look().open()
    page.keyboard.press("g")
    page.keyboard.press("e")
    row = page.get_by_role("row").filter(has_text=f"{code} / erp")
    press(page, row.get_by_role("link", name="HTTP 500"))
    press(page, page.get_by_role("link", name=sent))
    press(page, page.get_by_role("button", name="Attempt 1: 500 after").first)
    press(page, page.get_by_role("dialog").get_by_role("button", name="Close"))
    subscribers.configure(f"/{code}=fail:0")
    press(page, page.get_by_role("button", name="Resend…", exact=True))
    asking = page.get_by_role("dialog", name="Resend this message")
    press(page, asking.get_by_role("button", name="Resend", exact=True))
    press(page, page.get_by_role("link", name="What becomes of it"))
    expect(page.get_by_text("1 selected = 1 delivered + 0 failed + 0 skipped + 0 missing")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("by-keys")
    page.keyboard.press("Enter")
    expect(page.locator(".pier-head .pier-chip")).to_contain_text("delivered")
