"""The frame of every page: keyboard, languages, light and dark, access."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House
from tests.harness.bus_process import BusProcess


def test_the_palette_and_the_box_are_a_key_away(look: Look) -> None:
    looker = look()
    page = looker.open()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="A page, a destination").fill("desti")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{looker.url}/admin/destinations")
    expect(page.locator("h1")).to_have_text("Destinations")  # the address changes before the page is there
    page.keyboard.press("/")
    page.keyboard.type("order-42")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{looker.url}/admin/find?ref=order-42")
    expect(page.locator("h1")).to_have_text("Find")
    page.locator("h1").click()
    page.keyboard.type("go")
    expect(page).to_have_url(f"{looker.url}/admin/")


def test_the_palette_finds_destinations_subscriptions_and_actions(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("frame.palette")
    open_bus.admin.subscription("frame.palette", "ledger-of-palette", "http://127.0.0.1:9/")
    looker = look()
    page = looker.open()
    page.keyboard.press("Control+k")
    box = page.get_by_role("combobox", name="A page, a destination")
    box.fill("frame.pal")
    expect(page.get_by_role("option").first).to_have_text("frame.palettedestination")
    assert not looker.findings()
    first = page.get_by_role("option", selected=True)
    expect(first).to_have_text("frame.palettedestination")
    box.dispatch_event("keydown", {"key": "ArrowDown", "isComposing": True})  # an input method's own
    expect(first).to_have_text("frame.palettedestination")
    box.fill("ledger-of")
    expect(page.get_by_role("option", selected=True)).to_contain_text("frame.palette / ledger-of-palette")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{looker.url}/admin/destinations/frame.palette/subscriptions/ledger-of-palette")
    expect(page.locator("h1")).to_have_text("ledger-of-palette")
    page.keyboard.press("Control+k")
    box.fill("api")
    page.get_by_role("option", name="Try the API").click()
    expect(page).to_have_url(f"{looker.url}/docs")


def test_ids_and_urls_are_copied_by_a_button(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("frame.copy")
    open_bus.admin.subscription("frame.copy", "mail", "http://127.0.0.1:9/copied")
    looker = look()
    looker.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = looker.open("/destinations/frame.copy")
    page.get_by_role("button", name="Copy http://127.0.0.1:9/copied").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text === 'http://127.0.0.1:9/copied')")


def test_it_speaks_the_language_that_the_browser_asks_for_until_another_is_chosen(look: Look) -> None:
    looker = look(language="zh")
    page = looker.open()
    expect(page.locator("h1")).to_have_text("总览")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.get_by_role("button", name="语言与主题").click()
    page.get_by_text("English").click()
    expect(page.locator("h1")).to_have_text("Overview")
    looker.open("/destinations")
    expect(page.locator("h1")).to_have_text("Destinations")


def test_dark_is_as_the_system_until_it_is_chosen(look: Look) -> None:
    looker = look(dark=True)
    page = looker.open()
    assert "body--dark" in (page.locator("body").get_attribute("class") or "")
    page.get_by_role("button", name="Language and theme").click()
    page.get_by_text("Light", exact=True).click()
    page.wait_for_function("!document.body.classList.contains('body--dark')")


def test_the_frame_is_accessible_and_fits_a_phone(look: Look) -> None:
    looker = look(width=390, language="zh", dark=True)
    looker.open()
    assert not looker.findings()
    assert not looker.is_too_wide()


@pytest.mark.proof
def test_people_log_in_and_out_and_see_what_they_may(look: Look, house: House) -> None:
    password = house.invite("lena", "viewer")
    page = look(house.bus).page
    page.goto(f"{house.bus.url}/admin/find?ref=42")
    page.get_by_label("Name").fill("lena")
    page.get_by_label("Password", exact=True).fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(f"{house.bus.url}/admin/find?ref=42")
    expect(page.get_by_role("navigation").get_by_text("Health")).to_be_visible()
    expect(page.get_by_role("navigation").get_by_text("Audit log")).to_have_count(0)
    page.wait_for_function("window.did_handshake === true")
    page.get_by_role("button", name="lena: account").click()
    page.get_by_text("Log out").click()
    page.wait_for_url(f"{house.bus.url}/admin/login")
    page.goto(f"{house.bus.url}/admin/")
    expect(page.get_by_role("button", name="Log in")).to_be_visible()
