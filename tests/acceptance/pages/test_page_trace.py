"""The whole life of one message on one page: what happened, what it says, and what can be done about it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House
from tests.acceptance.pages.history import TIMES
from tests.acceptance.pages.sending import attempted, send, settled
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

EVIL = "<script>window.hacked = 1</script>{{ 7 * 7 }} \u202e gnp.exe \x1b[31m"


def retried(bus: BusProcess, subscribers: SubscriberProcess, name: str, wait: str = "1h") -> str:
    """Send a message that one subscriber takes and another refuses, and return its id."""
    code = f"trace.{name}"
    subscribers.configure(f"/{code}-bad=fail:1,status:500")
    bus.admin.destination(code)
    bus.admin.subscription(code, "good", subscribers.url(f"/{code}-good"))
    bus.admin.subscription(code, "bad", subscribers.url(f"/{code}-bad"), retry=[wait])
    sent = send(bus, code, {"order": 42}, biz_id=f"{name}-biz", source="shop", headers={"x-tenant": "north"})
    attempted(bus, sent, "bad", 1)
    attempted(bus, sent, "good", 1)
    return sent


def stored(bus: BusProcess, code: str, body: bytes, content_type: str = "application/octet-stream") -> str:
    """Send any bytes where nobody subscribes, and return the id."""
    bus.admin.destination(code, max_bytes=2 * 2**20)
    line = {"destination": code, "body_base64": base64.b64encode(body).decode(), "content_type": content_type}
    answer = bus.admin.call(
        "POST", "/v1/messages", content=json.dumps(line), headers={"content-type": "application/x-ndjson"}
    ).raise_for_status()
    sent = str(answer.json()["results"][0]["id"])
    settled(bus, sent, "skipped")
    return sent


def test_a_life_is_told_from_the_producer_to_the_next_attempt(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    sent = retried(open_bus, subscribers, "life")
    looker = look()
    page = looker.open(f"/messages/{sent}")
    steps = page.get_by_role("list", name="Step by step")
    for place in ("producer", "receiver", "dispatcher", "subscriber", "compensator"):
        expect(steps.get_by_text(place, exact=True).first).to_be_visible()
    expect(steps.get_by_text("broker", exact=True)).to_have_count(0)
    picture = page.get_by_role("region", name="Timeline")
    drawn = picture.get_by_role("group", name="Where the time of bad went")
    expect(drawn.get_by_role("button", name="Attempt 1: 500 after")).to_be_visible()
    expect(drawn.get_by_title("the next attempt is")).to_be_visible()
    expect(picture.get_by_text("wait for the answer")).to_be_visible()
    expect(picture.get_by_text("TLS")).to_have_count(0)
    drawn.get_by_role("button", name="Attempt 1: 500 after").click()
    page.get_by_role("dialog", name="Attempt 1 of bad").get_by_role("button", name="Close").click()
    bad = page.get_by_role("region", name="Delivery to bad")
    expect(bad.get_by_text("retrying · attempt 1, next at")).to_be_visible()
    expect(page.get_by_role("region", name="Delivery to good").get_by_text("delivered")).to_be_visible()
    since = bad.get_by_role("link", name="All failed since this message").get_attribute("href") or ""
    assert since.startswith("/admin/resends/new?destination=trace.life&subscription=bad&from=")
    bad.get_by_role("button", name="Attempt 1: request and response").click()
    attempt = page.get_by_role("dialog", name="Attempt 1 of bad")
    request = attempt.get_by_label("Request", exact=True)
    expect(request).to_contain_text(f"webhook-id: {sent}")
    expect(request).to_contain_text("x-tenant: north")
    expect(attempt.get_by_text("HTTP 500")).to_be_visible()
    looker.context.grant_permissions(["clipboard-read", "clipboard-write"])
    attempt.get_by_role("button", name="Copy as curl").click()
    expect(attempt.get_by_role("button", name="Copied")).to_be_visible()
    copied: str = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("curl --globoff -X POST http://127.0.0.1")
    attempt.get_by_role("button", name="Close").click()
    expect(attempt).to_have_count(0)


def test_what_holds_a_delivery_is_told_in_both_languages(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    open_bus.admin.destination("trace.held")
    open_bus.admin.subscription("trace.held", "slow", subscribers.url("/trace.held"), rate=0.001)
    first, second = (send(open_bus, "trace.held", {"order": n}) for n in range(2))
    settled(open_bus, first, "delivered")
    known = f"/api/v1/messages/{second}"
    wait_until(lambda: open_bus.admin.call("GET", known).is_success, within=30, what="the second in the store")
    slow = look().open(f"/messages/{second}").get_by_role("region", name="Delivery to slow")
    expect(slow.get_by_text("Now: the rate of the subscription holds it: 0.001 a second")).to_be_visible()
    page = look(language="zh").open(f"/messages/{second}")
    expect(page.get_by_text("当前：受订阅的速率限制：每秒 0.001 条")).to_be_visible()


@pytest.mark.usefixtures("open_bus")
def test_a_long_row_of_attempts_stays_responsive(look: Look, tried_id: str) -> None:
    page = look().open(f"/messages/{tried_id}")
    mail = page.get_by_role("region", name="Delivery to mail")
    expect(mail.get_by_role("button", name="Attempt 1: request and response")).to_be_visible()
    assert mail.get_by_role("row").count() < 100
    expect(page.get_by_text("steps in between are not listed")).to_be_visible()
    mail.locator(".q-table__middle").evaluate("box => box.scrollTo(0, box.scrollHeight)")
    last = mail.get_by_role("button", name=f"Attempt {TIMES}: request and response")
    expect(last).to_be_visible()
    last.click()
    attempt = page.get_by_role("dialog", name=f"Attempt {TIMES} of mail")
    expect(attempt.get_by_text(f"refused {TIMES}")).to_be_visible()


def test_it_follows_what_happens(look: Look, open_bus: BusProcess, subscribers: SubscriberProcess) -> None:
    sent = retried(open_bus, subscribers, "live", wait="1s")
    page = look().open(f"/messages/{sent}")
    bad = page.get_by_role("region", name="Delivery to bad")
    expect(bad.get_by_text("retrying")).to_be_visible()
    subscribers.configure("/trace.live-bad=delay:0")
    expect(bad.get_by_text("delivered")).to_be_visible()
    expect(page.get_by_role("switch", name="Live")).to_be_hidden()


def test_one_message_is_resent_to_whom_one_chooses(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    sent = retried(open_bus, subscribers, "resent")
    subscribers.configure("/trace.resent-bad=delay:0")
    page = look().open(f"/messages/{sent}")
    page.get_by_role("button", name="Resend…", exact=True).click()
    asking = page.get_by_role("dialog", name="Resend this message")
    expect(asking.get_by_role("checkbox", name="bad")).to_be_checked()
    expect(asking.get_by_role("checkbox", name="good")).not_to_be_checked()
    asking.get_by_role("checkbox", name="bad").click()
    asking.get_by_role("button", name="Resend", exact=True).click()
    expect(page.get_by_text("Choose a subscription at least.")).to_be_visible()
    asking.get_by_role("checkbox", name="bad").click()
    asking.get_by_label("Reason").fill("the shop is <b>back</b>")
    asking.get_by_role("button", name="Resend", exact=True).click()
    expect(page.get_by_text("It is delivered again to bad")).to_be_visible()
    job = page.get_by_role("link", name="What becomes of it").get_attribute("href") or ""
    assert (
        open_bus.admin.call("GET", f"/api/v1{job.removeprefix('/admin')}").json()["reason"] == "the shop is <b>back</b>"
    )
    bad = page.get_by_role("region", name="Delivery to bad")
    expect(bad.get_by_text("delivered")).to_be_visible()
    bad.get_by_text("Resends (1)").click()
    expect(bad.get_by_text("the shop is <b>back</b>")).to_be_visible()
    assert subscribers.count("/trace.resent-good") == 1


def test_an_edit_makes_a_new_message_that_is_linked(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    sent = retried(open_bus, subscribers, "edited")
    page = look().open(f"/messages/{sent}")
    page.get_by_role("button", name="Edit and resend…").click()
    asking = page.get_by_role("dialog", name="Edit and resend")
    body = asking.get_by_label("Body")
    expect(body).to_have_value('{"order": 42}')
    body.fill('{"order": 43')
    expect(asking.get_by_text("Not JSON")).to_be_visible()
    asking.get_by_role("button", name="Make it and deliver it").click()
    body.fill('{"order": 43.10}')
    expect(asking.get_by_text("Not JSON")).to_have_count(0)
    asking.get_by_role("button", name="Make it and deliver it").click()
    expect(asking.get_by_text("It needs a reason.")).to_be_visible()
    asking.get_by_label("Reason").fill("wrong order")
    asking.get_by_role("button", name="Make it and deliver it").click()
    expect(page.get_by_text("A new message goes to")).to_be_visible()
    expect(page.get_by_text("A new message was made of this one by editing")).to_be_visible()
    made = page.locator(".pier-note a").first.inner_text()
    assert made != sent
    assert open_bus.admin.body(made) == b'{"order": 43.10}'
    page.locator(".pier-note a").first.click()
    expect(page.get_by_text("Made by editing another message")).to_be_visible()
    expect(page.get_by_role("link", name=sent)).to_be_visible()


def test_a_text_that_is_longer_than_the_editor_takes_is_refused_and_the_page_lives(
    look: Look, open_bus: BusProcess
) -> None:
    sent = stored(open_bus, "trace.long", b"[" * 400 + b"]" * 400, "application/json")
    page = look().open(f"/messages/{sent}")
    page.get_by_role("button", name="Edit and resend…").click()
    asking = page.get_by_role("dialog", name="Edit and resend")
    too_long = page.get_by_text("Only texts up to 256 KiB are edited here")
    asking.get_by_role("button", name="Indent it").click()
    expect(too_long).to_be_visible()
    expect(too_long).to_be_hidden()
    body = asking.get_by_label("Body")
    body.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(json.dumps("é" * 600_000, ensure_ascii=False))
    expect(too_long).to_be_visible()
    asking.get_by_label("Reason").fill("longer")
    asking.get_by_role("button", name="Make it and deliver it").click()
    body.fill("[1]")
    expect(too_long).to_have_count(0)
    asking.get_by_role("button", name="Make it and deliver it").click()
    expect(page.get_by_text("nothing was made")).to_be_visible()


def test_a_hostile_body_is_shown_harmlessly_and_its_reading_is_noted(look: Look, open_bus: BusProcess) -> None:
    sent = stored(open_bus, "trace.hostile", json.dumps({"a": EVIL}, ensure_ascii=False).encode(), "text/html")
    page = look().open(f"/messages/{sent}")
    expect(page.get_by_text("window.hacked")).to_have_count(0)
    page.get_by_role("button", name="Show body").click()
    expect(page.get_by_text("<script>window.hacked = 1</script>{{ 7 * 7 }} ⟨U+202E⟩ gnp.exe")).to_be_visible()
    page.get_by_role("tab", name="Bytes").click()
    expect(page.get_by_text("00000000  7b 22 61 22")).to_be_visible()
    assert page.evaluate("window.hacked") is None
    entries = open_bus.admin.call("GET", "/api/v1/audit", params={"limit": 200}).json()["items"]
    assert any(sent in json.dumps(entry) for entry in entries)


def test_a_giant_or_binary_body_is_never_cut_in_silence(look: Look, open_bus: BusProcess) -> None:
    giant = stored(open_bus, "trace.giant", b'{"x":"' + b"a" * 1_200_000 + b'"}', "application/json")
    looker = look()
    page = looker.open(f"/messages/{giant}")
    page.get_by_role("button", name="Show body").click()
    expect(page.get_by_text("The first 64.0 KiB of 1.1 MiB; download it to have all.")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).stat().st_size == 1_200_008
    page.get_by_role("button", name="Edit and resend…").click()
    expect(page.get_by_text("This body cannot be edited here")).to_be_visible()
    binary = stored(open_bus, "trace.giant", bytes(range(256)))
    looker.open(f"/messages/{binary}")
    page.get_by_role("button", name="Show body").click()
    expect(page.get_by_text("000000f0  f0 f1 f2")).to_be_visible()
    expect(page.get_by_role("tab", name="Text")).to_have_count(0)


def test_what_is_not_there_says_so(look: Look) -> None:
    looker = look()
    for wrong in ("018f0000-0000-7000-8000-000000000000", "order-42", "%3Cscript%3E"):
        page = looker.open(f"/messages/{wrong}")
        expect(page.get_by_text("There is no message with this id")).to_be_visible()
    expect(page.get_by_role("link", name="Look for it among all ids")).to_have_attribute(
        "href", "/admin/find?ref=%3Cscript%3E"
    )


def test_a_viewer_reads_and_does_nothing(look: Look, house: House) -> None:
    bus = house.bus
    for code in ("trace.north", "trace.south"):
        bus.admin.destination(code)
    seen, hidden = send(bus, "trace.north", {}), send(bus, "trace.south", {})
    settled(bus, seen, "skipped")
    settled(bus, hidden, "skipped")
    looker = look(bus)
    house.person("ted", "viewer", "trace.north").enter(looker)
    page = looker.open(f"/messages/{seen}")
    expect(page.get_by_role("button", name="Resend…", exact=True)).to_be_disabled()
    expect(page.get_by_role("button", name="Edit and resend…")).to_be_disabled()
    looker.open(f"/messages/{hidden}")
    expect(page.get_by_text("There is no message with this id")).to_be_visible()


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), pytest.param(390, "zh", marks=pytest.mark.proof)])
def test_a_life_is_accessible_and_fits(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess, width: int, language: str
) -> None:
    sent = retried(open_bus, subscribers, f"looks-{language}")
    looker = look(width=width, language=language, dark=language == "zh")
    page = looker.open(f"/messages/{sent}")
    page.get_by_role("button", name="显示消息体" if language == "zh" else "Show body").click()
    expect(page.get_by_text('"order": 42')).to_be_visible()
    assert not looker.findings()
    assert not looker.is_too_wide()
    page.get_by_role("button", name="重发…" if language == "zh" else "Resend…", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    # In a dialog axe takes the veil over the page for what a button's text stands on: colours were looked at.
    assert not [found for found in looker.findings() if not found.startswith("color-contrast")]
