"""Failures of one kind are one group with a page of its own: times, common attributes, repair of some or all."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.sending import send_all
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

CODE = "page.group"
GROUP = f"/failures/group?destination={CODE}&subscription=erp&signature=HTTP+500"


@pytest.fixture(scope="module")
def ids(open_bus: BusProcess, subscribers: SubscriberProcess) -> Iterator[list[str]]:
    """Send four messages that die of an HTTP 500, all of one tenant."""
    subscribers.configure(f"/{CODE}=fail:1,status:500")
    open_bus.admin.destination(CODE)
    open_bus.admin.subscription(CODE, "erp", subscribers.url(f"/{CODE}"), retry=["1s"], retry_max_attempts=1)
    headers = {"x-tenant": "north", "x-mark": "a\u202eb"}
    sent = send_all(open_bus, CODE, [{"n": n} for n in range(4)], headers=headers, source="shop")
    wait_until(lambda: open_bus.admin.statuses(CODE)["dead"] == 4, within=60, what="all are dead")
    yield sorted(sent)
    subscribers.configure(f"/{CODE}=fail:0")


@pytest.mark.parametrize("width", [1280, 390])
def test_the_action_of_a_group_is_in_sight(look: Look, ids: list[str], width: int) -> None:
    looker = look(width=width)
    page = looker.open(f"/failures?destination={CODE}")
    row = page.get_by_role("row").filter(has_text=f"{CODE} / erp")
    action = row.get_by_role("link", name="Resend…")
    expect(action).to_be_in_viewport(ratio=1)
    expect(row).to_contain_text(f"{len(ids)} dead")
    assert not looker.is_too_wide()
    assert looker.findings() == []


def test_a_group_says_what_it_shares_and_when_it_was(look: Look, ids: list[str]) -> None:
    looker = look()
    page = looker.open(f"/failures?destination={CODE}")
    page.get_by_role("link", name="HTTP 500").click()
    expect(page).to_have_url(f"{looker.url}/admin{GROUP}")
    expect(page.get_by_role("heading", name="HTTP 500")).to_be_visible()
    expect(page.get_by_text("What helps: it answered and failed")).to_be_visible()
    summary = page.get_by_role("region", name="When, and what they share")
    expect(summary.get_by_text(f"{len(ids)} messages")).to_be_visible()
    expect(summary.get_by_role("img", name="Messages by when they were made")).to_be_visible()
    expect(summary.get_by_text("Header x-tenant")).to_be_visible()
    expect(summary.get_by_role("link", name="a⟨U+202E⟩b")).to_be_visible()
    summary.get_by_role("link", name="north").click()
    expect(page.get_by_role("link", name=ids[0])).to_be_visible()
    assert f"{looker.url}/admin/find?" in page.url
    assert "header=x-tenant%3A+north" in page.url
    assert "signature=HTTP+500" in page.url


def test_a_period_leads_to_its_messages(look: Look, ids: list[str]) -> None:
    page = look().open(GROUP)
    page.get_by_text("By time, as a list").click()
    page.get_by_role("region", name="When, and what they share").get_by_role("listitem").get_by_role(
        "link"
    ).first.click()
    expect(page).to_have_url(re.compile(r"/admin/find\?.*from=.*&to="))
    expect(page.get_by_role("row").filter(has_text="dead").first).to_be_visible()


def test_what_is_ticked_is_resent_and_nothing_else(look: Look, ids: list[str], open_bus: BusProcess) -> None:
    looker = look()
    page = looker.open(GROUP)
    bar = page.get_by_role("button", name="Resend these…")
    expect(bar).to_be_hidden()
    page.get_by_role("checkbox", name=f"Tick {ids[1]}").click()
    expect(page.get_by_text("1 ticked")).to_be_visible()
    assert looker.findings() == []
    bar.click()
    asking = page.get_by_role("dialog", name="Resend 1 deliveries to erp")
    asking.get_by_label("Reason").fill("only this one")
    asking.get_by_role("button", name="Resend").click()
    expect(page).to_have_url(re.compile("/admin/resends/[0-9a-f-]{36}"))
    expect(page.get_by_text("1 selected = 0 delivered + 1 failed + 0 skipped + 0 missing")).to_be_visible()
    attempts = {id_: open_bus.admin.trace(id_)["deliveries"][0]["attempts_made"] for id_ in ids}
    assert attempts == {id_: 2 if id_ == ids[1] else 1 for id_ in ids}


def test_a_group_that_is_no_more_says_so(look: Look) -> None:
    page = look().open("/failures/group?destination=page.nothing&subscription=erp&signature=HTTP+418")
    expect(page.get_by_text("Nothing fails like this any more")).to_be_visible()
    page.get_by_role("link", name="See what fails").click()
    expect(page.get_by_text("Nothing fails", exact=True)).to_be_visible()


def test_a_search_has_columns_to_choose_and_to_sort_by(look: Look, ids: list[str]) -> None:
    looker = look()
    page = looker.open(f"/find?destination={CODE}")
    table = page.locator(".pier-found")
    expect(table.get_by_role("row").filter(has_text=ids[0])).to_contain_text("0/1")
    expect(table.get_by_role("columnheader", name="Attempts")).to_have_count(0)
    page.get_by_text("Columns", exact=True).click()
    page.get_by_role("checkbox", name="Attempts").click()
    page.get_by_role("checkbox", name="Size").click()
    page.get_by_role("button", name="Show these").click()
    expect(table.get_by_role("columnheader", name="Attempts")).to_be_visible()
    expect(table.get_by_role("columnheader", name="Size")).to_have_count(0)
    first = table.get_by_role("row").nth(1)
    expect(first).to_contain_text(ids[-1])
    table.get_by_role("columnheader", name="Message").click()
    expect(first).to_contain_text(ids[0])


def test_ticked_messages_of_a_search_are_resent_where_they_failed(
    look: Look, ids: list[str], open_bus: BusProcess
) -> None:
    before = open_bus.admin.trace(ids[0])["deliveries"][0]["attempts_made"]
    page = look().open(f"/find?destination={CODE}")
    page.get_by_role("checkbox", name=f"Tick {ids[0]}").click()
    page.get_by_role("button", name="Resend these…").click()
    page.get_by_role("dialog", name="Resend 1 messages").get_by_role("button", name="Resend").click()
    page.get_by_role("link", name=f"What becomes of {CODE}").click()
    expect(page.get_by_text("1 selected = 0 delivered + 1 failed + 0 skipped + 0 missing")).to_be_visible()
    assert open_bus.admin.trace(ids[0])["deliveries"][0]["attempts_made"] == before + 1


def test_a_destination_that_there_is_not_is_told_with_the_nearest(look: Look, ids: list[str]) -> None:
    assert ids
    page = look().open("/find?destination=page.grouq")
    expect(page.get_by_text("There is no destination page.grouq")).to_be_visible()
    page.get_by_role("link", name=f"Search {CODE}").click()
    expect(page.get_by_role("link", name=ids[0])).to_be_visible()
