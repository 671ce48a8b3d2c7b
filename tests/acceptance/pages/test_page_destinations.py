"""Destinations and subscriptions are made, changed, paused and removed in the pages."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.pages.conftest import Look
from tests.harness.bus_process import BusProcess
from tests.harness.process import free_port
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until


def field(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).fill(value)


def test_a_destination_and_a_subscription_are_made_and_take_messages(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    looker = look()
    page = looker.open("/new-destination")
    field(page, "Code", "page.made")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator("h1")).to_have_text("page.made")
    expect(page.get_by_text("Nobody takes these messages yet")).to_be_visible()
    page.get_by_role("link", name="New subscription").click()
    field(page, "Name", "mail")
    field(page, "URL", subscribers.url("/page-made"))
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_text("The secret of mail")).to_be_visible()
    secret = page.get_by_label("secret", exact=True).inner_text()
    assert secret.startswith("whsec_")
    page.get_by_role("link", name="I have kept it").click()
    expect(page.locator("h1")).to_have_text("mail")
    assert secret not in page.content()
    open_bus.admin.send("page.made", b'{"a": 1}').raise_for_status()
    wait_until(lambda: subscribers.count("/page-made") == 1, within=30, what="the message arrives")
    looker.open("/destinations/page.made")
    expect(page.get_by_role("region", name="Subscriptions").get_by_role("link", name="mail")).to_be_visible()


def test_what_is_wrong_is_told_at_its_field(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("page.wrong")
    looker = look()
    page = looker.open("/new-destination")
    field(page, "Code", "no/slash")
    page.get_by_role("button", name="Make it").click()
    expect(page.get_by_role("alert").filter(has_text="no/slash").or_(page.get_by_text("128")).first).to_be_visible()
    looker.open("/destinations/page.wrong/new-subscription")
    field(page, "Name", "mail")
    field(page, "URL", "http://user:secret@127.0.0.1/x")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator(".q-field--error").filter(has=page.get_by_label("URL", exact=True))).to_be_visible()
    field(page, "URL", "http://127.0.0.1:9/x")
    field(page, "Filter", "body.[")
    page.get_by_role("button", name="Make it").click()
    expect(page.locator(".q-field--error").filter(has=page.get_by_label("Filter", exact=True))).to_be_visible()
    assert open_bus.admin.call("GET", "/api/v1/destinations/page.wrong/subscriptions").json()["items"] == []


def test_an_exponential_schedule_and_headers_come_back_as_they_were_written(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("page.schedule")
    looker = look()
    page = looker.open("/destinations/page.schedule/new-subscription")
    field(page, "Name", "mail")
    field(page, "URL", "http://127.0.0.1:9/x")
    field(page, "Wait after each failure", "5s * 3 <= 12h")
    field(page, "Own headers, NAME: VALUE a line", "X-Team: platform\nX-Colon: a:b")
    page.get_by_role("button", name="Make it").click()
    page.get_by_role("link", name="I have kept it").click()
    expect(page.locator("h1")).to_have_text("mail")
    stored = open_bus.admin.call("GET", "/api/v1/destinations/page.schedule/subscriptions/mail").json()
    assert stored["retry"] == {"first": "5s", "factor": 3.0, "max": "12h"}
    assert stored["headers"] == {"X-Team": "platform", "X-Colon": "a:b"}
    looker.open("/destinations/page.schedule/subscriptions/mail/edit")
    expect(page.get_by_label("Wait after each failure")).to_have_value("5s * 3.0 <= 12h")
    field(page, "Requests at once", "3")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("h1")).to_have_text("mail")
    changed = open_bus.admin.call("GET", "/api/v1/destinations/page.schedule/subscriptions/mail").json()
    assert changed == {**stored, "max_concurrency": 3}


def test_a_subscription_takes_batches(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("page.batch")
    open_bus.admin.subscription("page.batch", "mail", "http://127.0.0.1:9/x")
    looker = look()
    page = looker.open("/destinations/page.batch/subscriptions/mail")
    expect(page.get_by_text("Messages in a request")).to_be_visible()
    looker.open("/destinations/page.batch/subscriptions/mail/edit")
    expect(page.get_by_label("Messages in a request")).to_have_value("1")
    field(page, "Messages in a request", "50")
    page.get_by_label("A batch is").click()
    page.get_by_role("option", name="one JSON array").click()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("up to 50, as one JSON array")).to_be_visible()
    stored = open_bus.admin.call("GET", "/api/v1/destinations/page.batch/subscriptions/mail").json()
    assert (stored["batch"], stored["batch_format"]) == (50, "json")
    looker.open("/destinations/page.batch/subscriptions/mail/edit")
    field(page, "Messages in a request", "101")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("expected 100 or less")).to_be_visible()


def test_pausing_and_removing_ask_first(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("page.pause")
    open_bus.admin.subscription("page.pause", "mail", "http://127.0.0.1:9/x")
    page = look(moving=True).open("/destinations/page.pause")
    expect(page.get_by_role("button", name="Remove")).to_be_disabled()
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("button", name="Leave it").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not open_bus.admin.call("GET", "/api/v1/destinations/page.pause").json()["paused"]
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("This destination is paused")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("This destination is paused")).to_have_count(0)
    page.get_by_role("region", name="Subscriptions").get_by_role("link", name="mail").click()
    page.get_by_role("button", name="Remove").click()
    deed = page.get_by_role("button", name="Remove the subscription")
    expect(deed).to_be_disabled()
    page.get_by_label("Type mail to go on").fill("mail")
    deed.click()
    expect(page.get_by_text("Nobody takes these messages yet")).to_be_visible()


def test_what_is_not_there_is_told_with_the_next_step(look: Look) -> None:
    page = look().open("/destinations/page.nothing")
    expect(page.get_by_text("There is nothing here")).to_be_visible()


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), pytest.param(390, "zh", marks=pytest.mark.proof)])
def test_the_pages_are_accessible_and_fit(look: Look, open_bus: BusProcess, width: int, language: str) -> None:
    open_bus.admin.destination("page.axe")
    open_bus.admin.subscription("page.axe", "a-subscription-with-a-rather-long-name", "http://127.0.0.1:9/" + "x" * 200)
    looker = look(width=width, language=language, dark=language == "zh")
    place = "/destinations/page.axe"
    subscription = f"{place}/subscriptions/a-subscription-with-a-rather-long-name"
    for path in ("/destinations", place, f"{place}/edit", subscription, f"{subscription}/edit"):
        looker.open(path)
        assert not looker.findings(), path
        assert not looker.is_too_wide(), path


def test_how_a_subscription_does_is_said_first_and_in_lists(look: Look, open_bus: BusProcess) -> None:
    admin = open_bus.admin
    admin.destination("page.state")
    admin.subscription("page.state", "mail", f"http://127.0.0.1:{free_port()}/x")
    looker = look()
    page = looker.open("/destinations/page.state/subscriptions/mail")
    now = page.get_by_role("region", name="Now")
    expect(now).to_contain_text("nothing lately")
    for _ in range(20):
        admin.send("page.state", b"1").raise_for_status()
    expect(now).to_contain_text("breaker open", timeout=30_000)
    expect(now).to_contain_text("it does not answer, and is only probed")
    expect(now).to_contain_text("next probe")
    expect(now.get_by_role("link", name="Send a sample")).to_be_visible()
    latest = page.get_by_role("region", name="Latest attempts")
    expect(latest).to_contain_text("of 16 requests in flight")
    expect(latest.get_by_role("row").filter(has_text="no answer").first).to_contain_text("retrying")
    assert not looker.findings()
    looker.open("/destinations/page.state")
    listed = page.get_by_role("region", name="Subscriptions").get_by_role("row").filter(has_text="mail")
    expect(listed).to_contain_text("breaker open")
    looker.open("/destinations")
    expect(page.get_by_role("row").filter(has_text="page.state")).to_contain_text("breaker open")
    admin.pause("page.state", "mail", paused=True)
    looker.open("/destinations/page.state/subscriptions/mail")
    expect(now).to_contain_text("paused by a person")
