"""Keys that are held up, seen and decided about in the pages."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.sending import send_all
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

NUMBERS = itertools.count()
KEY = "account-42"
OTHER = "a key that is <b>long</b> and that nobody can read at one glance " * 3


class Ledger:
    """A destination that keeps an order, with keys that are held up by dead messages."""

    def __init__(self, bus: BusProcess, subscribers: SubscriberProcess, *keys: str) -> None:
        self.code = f"page.order{next(NUMBERS)}"
        self.place = f"/destinations/{self.code}/subscriptions/ledger"
        self._bus, self._subscribers, self._path = bus, subscribers, f"/{self.code}"
        subscribers.configure(f"{self._path}=fail:1,status:422")
        bus.admin.destination(self.code, ordering="key")
        bus.admin.subscription(self.code, "ledger", subscribers.url(self._path), retry=["200ms"], retry_max_attempts=2)
        self.ids = {key: send_all(bus, self.code, [1, 2, 3], key=key) for key in keys}
        wait_until(lambda: self.waiting() == dict.fromkeys(keys, 2), within=60, what="two wait behind each")

    def waiting(self) -> dict[str, int]:
        found = self._bus.admin.call("GET", f"/api/v1{self.place}/keys").json()["items"]
        return {held["key"]: held["waiting"] for held in found}

    def mend(self) -> None:
        self._subscribers.configure(f"{self._path}=fail:0")

    def got(self, key: str) -> list[str]:
        calls = self._subscribers.calls(self._path)
        return [call.id for call in calls if call.key == key and call.status == 200]


Made = Callable[..., Ledger]


@pytest.fixture
def ledger(open_bus: BusProcess, subscribers: SubscriberProcess) -> Made:
    return lambda *keys: Ledger(open_bus, subscribers, *keys)


def held(page: Page) -> Locator:
    return page.get_by_role("region", name="Keys that are held up")


def test_one_key_is_skipped_and_another_resumed(look: Look, ledger: Made) -> None:
    made = ledger(KEY, OTHER.strip())
    looker = look()
    page = looker.open(made.place)
    expect(held(page).get_by_role("row")).to_have_count(3)
    row = held(page).get_by_role("row").filter(has_text=KEY)
    for said in ("dead · attempt 2", "HTTP 422; retries exhausted after 2", made.ids[KEY][0]):
        expect(row).to_contain_text(said)
    made.mend()
    row.get_by_role("button", name=f"Skip what holds up the key {KEY}").click()
    asking = page.get_by_role("dialog")
    expect(asking).to_contain_text("this subscriber does not get it")
    asking.get_by_label("Reason").fill("the account is closed")
    asking.get_by_role("button", name="Skip it").click()
    expect(held(page).get_by_role("row")).to_have_count(2)
    wait_until(lambda: made.got(KEY) == made.ids[KEY][1:], within=60, what="the others arrive in order")
    held(page).get_by_role("button", name="Resume the key").click()
    expect(page.get_by_text("It is attempted again within seconds")).to_be_visible()
    expect(held(page).get_by_text("No key is held up")).to_be_visible()
    wait_until(lambda: made.got(OTHER.strip()) == made.ids[OTHER.strip()], within=60, what="all arrive in order")

    looker.open(f"/messages/{made.ids[KEY][0]}")
    expect(page.get_by_text("set aside by anyone: the account is closed").first).to_be_visible()
    looker.open(f"/find?destination={made.code}&status=parked")
    expect(page.get_by_role("link", name=made.ids[KEY][0])).to_be_visible()
    looker.open(f"/failures?destination={made.code}")
    expect(page.get_by_text("set aside by a person")).to_be_visible()


def test_a_message_says_which_one_it_waits_for(look: Look, ledger: Made) -> None:
    made = ledger(KEY)
    looker = look()
    page = looker.open(made.place)
    held(page).get_by_role("link", name=made.ids[KEY][0]).click()
    expect(page.get_by_text("its key waits until a person resends or skips it")).to_be_visible()
    looker.open(f"/messages/{made.ids[KEY][2]}")
    expect(page.get_by_text("waits for an earlier message of its key").first).to_be_visible()
    expect(page.get_by_text(f"it waits for message {made.ids[KEY][0]}")).to_be_visible()


def test_an_order_is_chosen_and_what_happens_on_a_failure(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("page.unordered")
    open_bus.admin.subscription("page.unordered", "ledger", "http://127.0.0.1:9/")
    looker = look()
    page = looker.open("/destinations/page.unordered/subscriptions/ledger/edit")
    expect(page.get_by_label("Given up after")).to_be_visible()
    expect(page.get_by_label("Once one is given up")).to_have_count(0)
    looker.open("/destinations/page.unordered/subscriptions/ledger")
    expect(page.get_by_role("region", name="Settings")).to_be_visible()
    expect(held(page)).to_have_count(0)
    looker.open("/destinations/page.unordered/edit")
    page.get_by_label("Order", exact=True).click()
    page.get_by_role("option", name="messages of a key one after another").click()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("page.unordered")
    expect(page.get_by_text("messages of a key one after another")).to_be_visible()
    looker.open("/destinations/page.unordered/subscriptions/ledger/edit")
    page.get_by_label("Once one is given up").click()
    page.get_by_role("option", name="it is parked, and its key goes on").click()
    page.get_by_role("button", name="Save").click()
    expect(held(page).get_by_text("No key is held up")).to_be_visible()
    expect(page.get_by_text("it is parked, and its key goes on")).to_be_visible()
    stored = open_bus.admin.call("GET", "/api/v1/destinations/page.unordered/subscriptions/ledger").json()
    assert stored["on_failure"] == "park"


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), pytest.param(390, "zh", marks=pytest.mark.proof)])
def test_held_keys_are_accessible_and_fit(look: Look, ledger: Made, width: int, language: str) -> None:
    made = ledger(KEY, OTHER.strip())
    looker = look(width=width, language=language, dark=language == "zh")
    page = looker.open(made.place)
    expect(page.locator(".pier-deeds button")).to_have_count(4)
    assert not looker.findings()
    assert not looker.is_too_wide()
    for deed in page.locator(".pier-deeds button").all():
        box = deed.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= width
    page.locator(".pier-deeds button").nth(1).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert not looker.is_too_wide()
