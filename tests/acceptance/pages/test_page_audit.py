"""The audit log in a page: who changed what, filtered by the URL, page by page."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House
from tests.acceptance.pages.looking import Looker

HOSTILE = "<script>alert(1)</script>\u202etxt.exe"
SUBSCRIPTION = "/destinations/audit.orders/subscriptions/billing"


class Logged:
    """Things were changed in a closed bus, by an admin and by a viewer who may not."""

    def __init__(self, house: House) -> None:
        self.bus = house.bus
        self.amy = house.person("amy", "admin")
        self.eve = house.person("eve", "viewer")
        for code in ("audit.orders", "audit.mails"):
            self.amy.call("PUT", f"/destinations/{code}", json={})
        made = self.amy.call("PUT", SUBSCRIPTION, json={"url": "http://127.0.0.1:9/x", "secret": "auto"})
        self.secret = made.json()["secret"]
        self.amy.call("PATCH", SUBSCRIPTION, json={"paused": True, "filter": f"'{HOSTILE}'"})
        assert self.eve.http.patch(SUBSCRIPTION, json={"paused": False}).status_code == 403


@pytest.fixture(scope="module")
def logged(house: House) -> Logged:
    return Logged(house)


def enter(look: Look, logged: Logged, path: str, **options: object) -> tuple[Looker, Page]:
    looker = look(logged.bus, **options)
    logged.amy.enter(looker)
    return looker, looker.open(path)


def rows(page: Page) -> int:
    return page.locator("tbody tr").count()


def test_a_change_is_shown_before_and_after_and_harmlessly(look: Look, logged: Logged) -> None:
    _, page = enter(look, logged, "/audit?resource=destinations/audit.orders/subscriptions")
    changed = page.locator("tbody tr").filter(has_text="filter")
    expect(changed).to_have_count(1)
    expect(changed).to_contain_text("paused false → true")
    expect(changed).to_contain_text(HOSTILE)
    expect(changed).to_contain_text("done")
    expect(changed.get_by_role("link", name="amy")).to_have_attribute("href", "/admin/audit?who=amy")
    place = changed.get_by_role("link", name="destinations/audit.orders/subscriptions/billing")
    expect(place).to_have_attribute("href", f"/admin{SUBSCRIPTION}")
    refused = page.locator("tbody tr").filter(has_text="refused · 403")
    expect(refused).to_contain_text("eve")
    made = page.locator("tbody tr").filter(has_text="fields")
    made.locator("summary").click()
    expect(made).to_contain_text("***")
    assert logged.secret not in page.content()


def test_what_was_typed_stays_when_the_page_changes_around_it(look: Look, logged: Logged) -> None:
    _, page = enter(look, logged, "/audit?who=amy")
    page.get_by_label("Who").fill("eve")
    page.evaluate("document.querySelector('#app')._vnode.component.proxy.$forceUpdate()")
    page.evaluate("new Promise(requestAnimationFrame)")
    expect(page.get_by_label("Who")).to_have_value("eve")


def test_filters_are_in_the_url_and_in_the_boxes(look: Look, logged: Logged) -> None:
    looker, page = enter(look, logged, "/audit")
    page.get_by_label("Who").fill("eve")
    page.get_by_label("Resource").fill("destinations/audit.orders")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "who=eve&resource=destinations%2Faudit.orders" in page.url
    expect(page.get_by_label("Who")).to_have_value("eve")
    looker.open("/audit?resource=destinations/audit.mails")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("tbody tr").nth(4)).to_be_visible()


def test_times_are_in_the_viewers_zone_and_bad_ones_are_told(look: Look, logged: Logged) -> None:
    _, page = enter(look, logged, "/audit?to=2026-01-31T12:00:01Z")
    expect(page.get_by_text("No entry is like that")).to_be_visible()
    expect(page.get_by_label("To", exact=True)).to_have_value("2026-01-31T20:00:01")
    page.get_by_label("To", exact=True).fill("2036-01-31T20:00:01")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tbody tr").nth(4)).to_be_visible()
    page.goto(f"{logged.bus.url}/admin/audit?from=yesterday")
    expect(page.get_by_text("yesterday is not a time")).to_be_visible()
    page.goto(f"{logged.bus.url}/admin/audit?cursor=nonsense")
    expect(page.get_by_text("the cursor is not one that a page gave")).to_be_visible()


def test_older_entries_are_a_page_away(look: Look, logged: Logged) -> None:
    for number in range(60):
        logged.amy.call("PATCH", "/destinations/audit.mails", json={"retention_days": 1 + number})
    _, page = enter(look, logged, "/audit?who=amy&resource=destinations/audit.mails")
    expect(page.locator("tbody tr").nth(49)).to_contain_text("retention_days")
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_role("link", name="Newest")).to_be_visible()
    # 61 in all: the destination was made before.
    assert rows(page) == 11
    assert "who=amy" in page.url
    expect(page.get_by_role("link", name="Older")).to_have_count(0)


def test_the_log_is_for_admins(look: Look, logged: Logged) -> None:
    looker = look(logged.bus)
    logged.eve.enter(looker)
    page = looker.open("/audit")
    expect(page.get_by_text("You may not see or do this")).to_be_visible()
    expect(page.locator("tbody")).to_have_count(0)


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), pytest.param(390, "zh", marks=pytest.mark.proof)])
def test_the_log_is_accessible_and_fits(look: Look, logged: Logged, width: int, language: str) -> None:
    looker, page = enter(look, logged, "/audit?who=amy", width=width, language=language)
    expect(page.locator("tbody tr").first).to_be_visible()
    assert not looker.findings()
    assert not looker.is_too_wide()
