"""Messages are found by any id and by filters, and a search says how far it got."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House
from tests.acceptance.pages.sending import WITHIN, attempted, send, send_all, settled
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_any_id_in_the_box_leads_to_its_message(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("find.any")
    context = f"00-{TRACE}-b7ad6b7169203331-01"
    sent = send(open_bus, "find.any", {}, biz_id="any-biz", traceparent=context)
    settled(open_bus, sent, "skipped")
    looker = look()
    for ref in ("any-biz", TRACE):
        page = looker.open()
        page.keyboard.press("/")
        page.keyboard.type(ref)
        page.keyboard.press("Enter")
        expect(page).to_have_url(f"{looker.url}/admin/messages/{sent}")
    page = looker.open("/find?ref=nobody-has-this")
    expect(page.get_by_text("No message has this id")).to_be_visible()


def test_pages_go_on_and_back_and_say_what_was_searched(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("find.pages")
    sent = sorted(send_all(open_bus, "find.pages", [{"n": n} for n in range(53)]))
    wait_until(lambda: open_bus.admin.statuses("find.pages")["skipped"] == 53, within=WITHIN, what="all are stored")
    looker = look()
    page = looker.open("/find?destination=find.pages")
    expect(page.get_by_role("status").filter(has_text="50 shown")).to_contain_text("there are older ones")
    expect(page.get_by_role("link", name=sent[-1])).to_be_visible()
    page.get_by_role("link", name="Older").click()
    expect(page.get_by_role("status").filter(has_text="3 shown")).to_contain_text("complete: all that is stored")
    expect(page.get_by_role("link", name=sent[0])).to_be_visible()
    page.go_back()
    expect(page.get_by_role("status").filter(has_text="50 shown")).to_be_visible()
    page.get_by_role("link", name="Take away: Destination: find.pages").click()
    expect(page).to_have_url(f"{looker.url}/admin/find")


def test_the_form_is_a_url_and_what_is_relative_stays_so(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("find.form")
    sent = send(open_bus, "find.form", {"order": {"lines": [{"sku": "A-17"}]}}, headers={"x-tenant": "north"})
    settled(open_bus, sent, "skipped")
    looker = look()
    page = looker.open("/find")
    page.get_by_label("Destination", exact=True).fill("find.form")
    page.get_by_text("More filters").click()
    page.get_by_label("Header").fill("x-tenant: north")
    page.get_by_label("Path in the body").fill("order.lines[0].sku")
    page.get_by_label("Value there").fill("A-17")
    page.get_by_role("button", name="Last 1 h").click()
    asked = "header=x-tenant%3A+north&body_path=order.lines%5B0%5D.sku&body_value=A-17"
    expect(page).to_have_url(f"{looker.url}/admin/find?destination=find.form&{asked}&last=1h")
    expect(page.get_by_role("link", name=sent)).to_be_visible()
    export = page.get_by_role("link", name="Export NDJSON").get_attribute("href") or ""
    lines = open_bus.admin.call("GET", export).raise_for_status().text.splitlines()
    assert [sent in line for line in lines] == [True, False]
    href = page.get_by_role("link", name="Resend these…").get_attribute("href") or ""
    assert href.startswith("/admin/resends/new?destination=find.form&header=")
    page.get_by_role("link", name="Take away: Path in the body: order.lines[0].sku").click()
    expect(page).to_have_url(f"{looker.url}/admin/find?destination=find.form&header=x-tenant%3A+north&last=1h")
    page.get_by_label("From", exact=True).fill("2026-02-03T08:30:00")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.get_by_label("From", exact=True)).to_have_value("2026-02-03T08:30")
    instant = datetime(2026, 2, 3, 8, 30, tzinfo=ZoneInfo("Asia/Shanghai")).astimezone(UTC)
    assert f"from={instant:%Y-%m-%dT%H}%3A30%3A00.000Z" in page.url
    assert "last=" not in page.url


def test_what_is_retried_says_how_often_and_when_next(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    subscribers.configure("/find-retried=fail:1,status:503")
    open_bus.admin.destination("find.retried")
    open_bus.admin.subscription("find.retried", "mail", subscribers.url("/find-retried"), retry=["1h"])
    sent = send(open_bus, "find.retried", {})
    attempted(open_bus, sent, "mail", 1)
    looker = look()
    page = looker.open("/find?destination=find.retried&subscription=mail&status=retrying&status_class=5xx")
    expect(page.get_by_text("retrying · attempt 1, next at")).to_be_visible()
    expect(page.get_by_label("Status", exact=True)).to_have_value("retrying")
    looker.open("/find?destination=find.retried&status=dead")
    expect(page.get_by_text("No message meets these filters")).to_be_visible()


@pytest.mark.parametrize(
    ("query", "label"),
    [
        ("header=a+b", "Header"),
        pytest.param("body_path=..", "Path in the body", marks=pytest.mark.proof),
        pytest.param("status=lost", "Status", marks=pytest.mark.proof),
        ("from=x", "From"),
    ],
)
def test_a_filter_that_is_not_possible_is_told_at_its_field(look: Look, query: str, label: str) -> None:
    page = look().open(f"/find?{query}")
    expect(page.get_by_text("This filter is not possible")).to_be_visible()
    expect(page.get_by_label(label, exact=True)).to_have_attribute("aria-invalid", "true")


def test_a_cursor_and_a_range_of_nobody_are_told(look: Look) -> None:
    looker = look()
    page = looker.open("/find?cursor=nonsense")
    expect(page.get_by_text("This filter is not possible")).to_be_visible()
    looker.open("/find?last=yesterday")
    expect(page.get_by_text("This filter is not possible")).to_be_visible()


def test_what_strangers_wrote_is_only_text(look: Look, open_bus: BusProcess) -> None:
    open_bus.admin.destination("find.hostile")
    evil = (
        "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>{{ 7 * 7 }} \u05e9\u05dc\u05d5\u05dd"
    )
    sent = send(open_bus, "find.hostile", {}, biz_id=evil, source="'\"><b>")
    settled(open_bus, sent, "skipped")
    looker = look()
    page = looker.open("/find?destination=find.hostile&ref=%3Cscript%3Ewindow.hacked%3D1%3C/script%3E")
    expect(page.get_by_label("Id", exact=True)).to_have_value("<script>window.hacked=1</script>")
    looker.open("/find?destination=find.hostile")
    expect(page.get_by_text("<script>window.hacked = 1</script>")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert not looker.is_too_wide()


def test_who_sees_one_destination_searches_there(look: Look, house: House) -> None:
    looker = look(house.bus)
    house.root.call("PUT", "/destinations/find.north", json={})
    house.person("fay", "viewer", "find.north").enter(looker)
    page = looker.open("/find")
    expect(page.get_by_text("You may not search there")).to_be_visible()
    looker.open("/find?destination=find.north")
    expect(page.get_by_text("No message meets these filters")).to_be_visible()
    expect(page.get_by_text("Resend these…")).to_have_count(0)


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), pytest.param(390, "zh", marks=pytest.mark.proof)])
def test_finding_is_accessible_and_fits(look: Look, open_bus: BusProcess, width: int, language: str) -> None:
    open_bus.admin.destination(f"find.looks.{language}")
    settled(open_bus, send(open_bus, f"find.looks.{language}", {}, source="shop"), "skipped")
    looker = look(width=width, language=language, dark=language == "zh")
    page = looker.open(f"/find?destination=find.looks.{language}&source=shop&last=1d")
    expect(page.locator("h1")).to_have_text("查找" if language == "zh" else "Find")
    expect(page.get_by_role("table").get_by_text("shop")).to_be_visible()
    assert not looker.findings()
    assert not looker.is_too_wide()
