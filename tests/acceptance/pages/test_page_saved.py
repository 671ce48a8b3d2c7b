"""Searches are kept under a name, and what masking rules hide stays hidden on a message's page."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House, Person
from tests.acceptance.pages.looking import Looker
from tests.acceptance.pages.sending import send, settled


@pytest.fixture(scope="module")
def sue(house: House) -> Person:
    return house.person("sue", "viewer")


def enter(look: Look, house: House, person: Person) -> Looker:
    looker = look(house.bus)
    person.enter(looker)
    return looker


def test_a_search_is_kept_shared_and_removed(look: Look, house: House, sue: Person) -> None:
    house.bus.admin.destination("saved")
    page = enter(look, house, house.root).open("/find?destination=saved&last=1d")
    page.get_by_role("button", name="Save this search").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("It needs a name.")).to_be_visible()
    page.get_by_label("Name of the view").fill("<b>mine #1?")
    page.get_by_role("checkbox").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("link", name="<b>mine #1?")).to_be_visible()
    seen = enter(look, house, sue).open("/find")
    expect(seen.get_by_role("button", name="Remove the view")).to_have_count(0)
    seen.get_by_role("link", name="<b>mine #1?").click()
    expect(seen).to_have_url(f"{house.bus.url}/admin/find?destination=saved&last=1d")
    page.get_by_role("button", name="Remove the view").click()
    expect(page.get_by_role("link", name="<b>mine #1?")).to_have_count(0)


def test_what_is_masked_is_shown_as_masked(look: Look, house: House, sue: Person) -> None:
    house.bus.admin.destination("masked", mask=["body.card"])
    sent = send(house.bus, "masked", {"card": "4111", "a": 1})
    settled(house.bus, sent, "skipped")
    page = enter(look, house, sue).open(f"/messages/{sent}")
    expect(page.get_by_text("parts are masked")).to_be_visible()
    page.get_by_role("button", name="Show body").click()
    expect(page.get_by_text("Parts of this body are masked")).to_be_visible()
    expect(page.get_by_text('"card": "***"')).to_be_visible()
    expect(page.get_by_role("button", name="Show all of it")).to_have_count(0)
    mine = enter(look, house, house.root).open(f"/messages/{sent}")
    mine.get_by_role("button", name="Show all of it").click()
    expect(mine.get_by_text('"card": "4111"')).to_be_visible()
