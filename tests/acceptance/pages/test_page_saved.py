"""Searches are kept under a name, and what masking rules hide stays hidden on a message's page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.sending import send, settled
from tests.harness.bus_process import BusProcess, run_bus

Passwords = dict[str, str]


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[BusProcess, Passwords]]:
    """Run a bus with an admin and a viewer, and give their passwords."""
    data, passwords = tmp_path / "data", {}
    for name, role in (("ann", "admin"), ("eve", "viewer")):
        made = run_bus("user", "add", name, "--role", role, "--data", data, "--json")
        passwords[name] = json.loads(made.stdout)["password"]
    key = json.loads(run_bus("key", "create", "--role", "admin", "--data", data, "--json").stdout)["key"]
    with BusProcess(data) as bus:
        bus.admin.authorize(key)
        yield bus, passwords


def test_a_search_is_kept_shared_and_removed(look: Look, guarded: tuple[BusProcess, Passwords]) -> None:
    bus, passwords = guarded
    bus.admin.destination("saved")
    page = look(bus).log_in("ann", passwords["ann"], "/find?destination=saved&last=1d")
    page.get_by_role("button", name="Save this search").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("It needs a name.")).to_be_visible()
    page.get_by_label("Name of the view").fill("<b>mine #1?")
    page.get_by_role("checkbox").click()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("link", name="<b>mine #1?")).to_be_visible()
    other = look(bus)
    seen = other.log_in("eve", passwords["eve"], "/find")
    expect(seen.get_by_role("button", name="Remove the view")).to_have_count(0)
    seen.get_by_role("link", name="<b>mine #1?").click()
    expect(seen).to_have_url(f"{bus.url}/admin/find?destination=saved&last=1d")
    page.get_by_role("button", name="Remove the view").click()
    expect(page.get_by_role("link", name="<b>mine #1?")).to_have_count(0)


def test_what_is_masked_is_shown_as_masked(look: Look, guarded: tuple[BusProcess, Passwords]) -> None:
    bus, passwords = guarded
    bus.admin.destination("masked", mask=["body.card"])
    sent = send(bus, "masked", {"card": "4111", "a": 1})
    settled(bus, sent, "skipped")
    page = look(bus).log_in("eve", passwords["eve"], f"/messages/{sent}")
    expect(page.get_by_text("parts are masked")).to_be_visible()
    page.get_by_role("button", name="Show body").click()
    expect(page.get_by_text("Parts of this body are masked")).to_be_visible()
    expect(page.get_by_text('"card": "***"')).to_be_visible()
    expect(page.get_by_role("button", name="Show all of it")).to_have_count(0)
    mine = look(bus).log_in("ann", passwords["ann"], f"/messages/{sent}")
    mine.get_by_role("button", name="Show all of it").click()
    expect(mine.get_by_text('"card": "4111"')).to_be_visible()
