"""The API as a page, on which it can be tried."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House
from tests.acceptance.pages.looking import Looker


def opened(looker: Looker) -> None:
    looker.page.goto(f"{looker.url}/docs")
    expect(looker.page.get_by_text("/api/v1/overview", exact=True)).to_be_visible()


def test_an_operation_is_tried_by_who_is_logged_in(look: Look, house: House) -> None:
    looker = look(house.bus)
    page = looker.page
    house.person("api-reader", "admin").enter(looker)
    opened(looker)
    page.get_by_role("button", name="put /api/v1/views/{name}").first.click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_placeholder("name").fill("tried")
    page.locator("textarea").first.fill('{"page": "find", "query": "", "shared": false}')
    page.get_by_role("button", name="Execute").click()
    expect(page.locator(".live-responses-table .response-col_status").nth(1)).to_contain_text("200")
    assert looker.troubles == []
