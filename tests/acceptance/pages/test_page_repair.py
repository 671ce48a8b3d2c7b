"""A bad hour: what fails is seen as a group, its cause is mended, and it is resent as a job that balances."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.looking import Looker
from tests.acceptance.pages.sending import send_all
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

NUMBERS = itertools.count()
# What a kill may repeat (docs/guarantees.md): requests in flight, and answers whose outcome was not yet on disk.
WINDOW = 2 * 16


class Hour:
    """A destination with messages that are dead for its subscriber, or that it has ``taken``.

    More than a few cannot be dead: its breaker would open, and the rest would wait.
    """

    def __init__(
        self, bus: BusProcess, subscribers: SubscriberProcess, count: int, *, code: str = "", taken: bool = False
    ) -> None:
        self.bus = bus
        self.subscribers = subscribers
        self.code = code or f"page.repair{next(NUMBERS)}"
        self.path = f"/{self.code}"
        self.status = "delivered" if taken else "dead"
        subscribers.configure(f"{self.path}=fail:{0 if taken else 1},status:500")
        bus.admin.destination(self.code)
        bus.admin.subscription(self.code, "erp", subscribers.url(self.path), retry=["1s"], retry_max_attempts=1)
        self.ids = send_all(bus, self.code, [{"n": n} for n in range(count)])
        wait_until(self.all_ended, within=60, what="all ended", every=0.2, state=lambda: bus.admin.statuses(self.code))

    def all_ended(self) -> bool:
        return self.bus.admin.statuses(self.code)[self.status] == len(self.ids)

    def mend(self) -> None:
        self.subscribers.configure(f"{self.path}=fail:0")

    def delivered(self) -> int:
        return self.bus.admin.statuses(self.code)["delivered"]


@pytest.fixture
def hour(open_bus: BusProcess, subscribers: SubscriberProcess) -> Hour:
    return Hour(open_bus, subscribers, 3)


def resend_group(page: Page, hour: Hour, looker: Looker) -> None:
    looker.open(f"/failures?destination={hour.code}")
    page.get_by_role("link", name="Resend…").click()
    expect(page.get_by_text(f"{len(hour.ids)} deliveries would be resent")).to_be_visible()


def test_a_group_of_failures_is_found_mended_and_resent_and_the_job_balances(look: Look, hour: Hour) -> None:
    looker = look()
    page = looker.open(f"/failures?destination={hour.code}")
    row = page.get_by_role("row").filter(has_text=f"{hour.code} / erp")
    expect(row).to_contain_text("500")
    expect(row).to_contain_text("3 dead")
    hour.mend()
    resend_group(page, hour, looker)
    page.get_by_label("Reason").fill("erp is mended")
    page.get_by_role("button", name="Resend 3 deliveries").click()
    expect(page).to_have_url(re.compile("/admin/resends/[0-9a-f-]{36}"))
    expect(page.get_by_text("3 selected = 3 delivered + 0 failed + 0 skipped + 0 missing")).to_be_visible()
    expect(page.get_by_text("balanced", exact=True)).to_be_visible()
    expect(page.locator(".pier-chip").get_by_text("done")).to_be_visible()
    expect(page.get_by_text("erp is mended")).to_be_visible()
    assert hour.delivered() == 3
    page.reload()
    table = page.get_by_role("region", name="Each delivery")
    expect(table.get_by_role("row")).to_have_count(4)
    looker.open(f"/failures?destination={hour.code}")
    expect(page.get_by_text("Nothing fails")).to_be_visible()
    looker.open("/resends")
    expect(page.get_by_role("row").filter(has_text="erp is mended")).to_contain_text("done")


def test_nothing_is_resent_without_a_reason_and_what_failed_is_resent_again(look: Look, hour: Hour) -> None:
    looker = look()
    page = looker.page
    resend_group(page, hour, looker)
    page.get_by_role("button", name="Resend 3 deliveries").click()
    expect(page.get_by_text("Say why: others will read it.")).to_be_visible()
    page.get_by_label("Reason").fill("too early")
    page.get_by_role("button", name="Resend 3 deliveries").click()
    expect(page.get_by_text("3 selected = 0 delivered + 3 failed + 0 skipped + 0 missing")).to_be_visible()
    hour.mend()
    page.get_by_role("button", name="Resend what failed (3)").click()
    expect(page.get_by_text("3 selected = 3 delivered + 0 failed + 0 skipped + 0 missing")).to_be_visible()
    page.get_by_role("region", name="The job").get_by_role("link").click()
    expect(page.get_by_text("Done again as")).to_be_visible()


def test_many_must_be_typed_and_a_job_is_slowed_paused_resumed_and_cancelled(
    look: Look, open_bus: BusProcess, subscribers: SubscriberProcess
) -> None:
    hour = Hour(open_bus, subscribers, 120, taken=True)
    looker = look()
    page = looker.open(f"/resends/new?destination={hour.code}&status=delivered")
    page.get_by_label("Reason").fill("slowly")
    page.get_by_label("Messages a second").fill("2")
    page.get_by_role("button", name="Resend 120 deliveries").click()
    expect(page).to_have_url(re.compile("/resends/new"))
    page.get_by_label("Type 120 to go on").fill("120")
    page.get_by_role("button", name="Resend 120 deliveries").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator(".pier-chip").get_by_text("paused")).to_be_visible()
    page.get_by_role("button", name="Rate…").click()
    page.get_by_role("dialog").get_by_label("Resend how many a second?").fill("3")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page.get_by_text("3.00 a second")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".pier-chip").get_by_text("resending")).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the rest").click()
    expect(page.locator(".pier-head .pier-chip")).to_have_text("canceled")
    expect(page.get_by_text("balanced", exact=True)).to_be_visible()
    assert subscribers.count(hour.path) < 240


def test_failures_that_come_after_the_selection_was_frozen_are_told(look: Look, hour: Hour) -> None:
    looker = look()
    page = looker.page
    resend_group(page, hour, looker)
    page.get_by_label("Reason").fill("as it was")
    page.get_by_role("button", name="Resend 3 deliveries").click()
    expect(page.locator(".pier-head .pier-chip")).to_have_text("done")
    hour.ids.append(hour.bus.admin.send(hour.code, b"{}").json()["id"])
    wait_until(hour.all_ended, within=60, what="the new one is dead")
    page.reload()
    expect(page.get_by_text("1 more failed since this job was made")).to_be_visible()
    page.get_by_role("link", name="Resend these too").click()
    expect(page.get_by_text("1 deliveries would be resent")).to_be_visible()


def test_a_filter_that_is_none_and_a_job_that_is_not_there_are_told(look: Look) -> None:
    looker = look()
    page = looker.open("/resends/new?status=nonsense")
    expect(page.get_by_text("This value is not possible")).to_be_visible()
    looker.open("/resends/new?destination=page.nobody")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    looker.open("/resends/nothing")
    expect(page.get_by_text("There is nothing here")).to_be_visible()


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), pytest.param(390, "zh", marks=pytest.mark.proof)])
def test_the_pages_are_accessible_and_fit(look: Look, hour: Hour, width: int, language: str) -> None:
    looker = look(width=width, language=language)
    job = hour.bus.admin.call("POST", "/api/v1/resends", json={"filter": {"destination": hour.code}, "reason": "x"})
    backlog = f"/resends/discard?destination={hour.code}&subscription=erp&status=dead"
    places = ("/failures", "/resends", f"/resends/new?destination={hour.code}", f"/resends/{job.json()['id']}", backlog)
    for path in places:
        looker.open(path)
        assert not looker.findings(), path
        assert not looker.is_too_wide(), path


@pytest.mark.proof
def test_a_bulk_job_goes_on_after_the_bus_was_killed(look: Look, tmp_path: Path) -> None:
    with SubscriberProcess(tmp_path) as subscribers, BusProcess(tmp_path / "data") as bus:
        hour = Hour(bus, subscribers, 150, code="page.killed", taken=True)
        subscribers.reset()
        looker = look(bus)
        page = looker.open(f"/resends/new?destination={hour.code}")
        page.get_by_label("Reason").fill("killed meanwhile")
        page.get_by_label("Messages a second").fill("40")
        page.get_by_label("Type 150 to go on").fill("150")
        page.get_by_role("button", name="Resend 150 deliveries").click()
        expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
        wait_until(lambda: subscribers.count(hour.path) >= 20, within=60, what="some are resent", every=0.05)
        job = page.url.rpartition("/")[2]
        page.close()
        bus.kill()
        bus.start()
        page = looker.begin_anew().open(f"/resends/{job}")
        expect(page.get_by_text("150 selected = 150 delivered + 0 failed + 0 skipped + 0 missing")).to_be_visible(
            timeout=90_000
        )
        assert 150 <= subscribers.count(hour.path) <= 150 + WINDOW


def test_the_alarm_of_what_is_being_resent_says_so(look: Look, hour: Hour) -> None:
    body = {"filter": {"destination": hour.code, "status": "dead"}, "rate": 0.001, "reason": "slowly"}
    job_id = hour.bus.admin.call("POST", "/api/v1/resends", json=body).json()["id"]

    def alarms(path: str) -> list[dict[str, Any]]:
        found = hour.bus.admin.call("GET", f"/api/v1/{path}").raise_for_status().json()
        return [one for one in found["alarms"] if one["destination"] == hour.code]

    def incidents() -> list[str]:
        found = hour.bus.admin.call("GET", "/api/v1/alarms").raise_for_status().json()["items"]
        return [one["id"] for one in found if any(alarm["destination"] == hour.code for alarm in one["alarms"])]

    wait_until(incidents, within=30, what="people are told of it")
    assert {cure["id"] for alarm in alarms("overview") for cure in alarm["cures"]} == {job_id}
    looker = look()
    page = looker.open(f"/alarms/{incidents()[0]}")
    cure = page.locator(f"a[href='/admin/resends/{job_id}']").first
    expect(cure).to_have_text("A resend is under way")
    expect(page.get_by_text(re.compile("of 3 · resending · by anyone")).first).to_be_visible()
    assert not looker.findings()
    hour.bus.admin.call("DELETE", f"/api/v1/resends/{job_id}").raise_for_status()
    expect(cure).to_have_count(0)
    expect(page.get_by_text(re.compile(f"erp of {hour.code} died")).first).to_be_visible()


def test_a_backlog_is_discarded_by_who_types_its_name_and_can_be_resent(look: Look, hour: Hour) -> None:
    looker = look()
    page = looker.open(f"/destinations/{hour.code}/subscriptions/erp")
    page.get_by_role("link", name="Discard its backlog…").click()
    expect(page.get_by_text("3 deliveries would be discarded")).to_be_visible()
    page.get_by_role("link", name="retrying", exact=True).click()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.get_by_role("link", name="dead", exact=True).click()
    page.get_by_role("link", name="older than an hour").click()
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    page.get_by_role("link", name="of any age").click()
    discard = page.get_by_role("button", name="Discard 3 deliveries")
    discard.click()
    expect(page.get_by_text("Say why: others will read it.")).to_be_visible()
    page.get_by_label("Reason").fill("void since May")
    discard.click()
    expect(page).to_have_url(re.compile("/resends/discard"))
    page.get_by_label("Type erp to go on").fill("erp")
    discard.click()
    expect(page).to_have_url(re.compile("/admin/resends/[0-9a-f-]{36}"))
    expect(page.get_by_text("3 selected = 0 delivered + 3 discarded + 0 skipped + 0 missing")).to_be_visible()
    expect(page.get_by_role("heading", name=re.compile("^Discard of"))).to_be_visible()
    assert hour.bus.admin.statuses(hour.code) == {"canceled": 3}
    hour.mend()
    page.get_by_role("button", name="Resend what was discarded (3)").click()
    expect(page.get_by_text("3 selected = 3 delivered + 0 failed + 0 skipped + 0 missing")).to_be_visible()
    looker.open(f"/messages/{hour.ids[0]}")
    expect(page.get_by_text("delivered").first).to_be_visible()
    looker.open("/resends")
    expect(page.get_by_role("row").filter(has_text="void since May").last).to_contain_text("discard")
