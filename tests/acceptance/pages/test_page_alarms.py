"""Alarms in the pages: what needs a person, taking it on, silencing it, and what is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.harness.alarm_channels import AlarmChannels
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until

RULES = '[alarm_rules.subscriber-gone]\nclear = "0s"\n'
WITHIN = 30_000


@pytest.fixture(scope="module")
def channels() -> Iterator[AlarmChannels]:
    with AlarmChannels() as running:
        yield running


@pytest.fixture(scope="module")
def bus(
    tmp_path_factory: pytest.TempPathFactory, channels: AlarmChannels, subscribers: SubscriberProcess
) -> Iterator[BusProcess]:
    """A bus with a subscriber that says that it is gone, and with two channels of which one takes nothing."""
    folder = tmp_path_factory.mktemp("alarms")
    config = folder / "bus.toml"
    config.write_text(channels.config("ops") + channels.config("mail") + RULES)
    channels.deaf = {"mail"}
    subscribers.configure("/gone=fail:1,status:410")
    with BusProcess(folder / "data", config=config) as running:
        running.admin.destination("orders")
        running.admin.subscription("orders", "shop", subscribers.url("/gone"))
        running.admin.send("orders", b"{}")

        def told() -> list[dict]:
            items = running.admin.call("GET", "/api/v1/alarms").json()["items"]
            return [one for one in items if len(one["told"]) == 2]

        wait_until(told, within=30, what="the channels were told, or are owed it")
        yield running


def test_an_incident_is_read_in_chinese_on_a_telephone(look: Look, bus: BusProcess) -> None:
    looker = look(bus, width=390, language="zh")
    page = looker.open("/alarms")
    card = page.locator(".pier-incident")
    expect(card.get_by_role("heading")).to_contain_text("orders")
    expect(card).to_contain_text("尚未收下：mail")
    assert not looker.findings()
    assert not looker.is_too_wide()


def test_an_incident_is_taken_on_silenced_and_over(look: Look, bus: BusProcess, subscribers: SubscriberProcess) -> None:
    looker = look(bus)
    page = looker.open("/alarms")
    card = page.locator(".pier-incident")
    expect(card).to_contain_text("told: ops")
    card.get_by_role("button", name="Take it on…").click()
    page.get_by_label("What the others should know").fill("on it")
    page.get_by_role("button", name="Take it on", exact=True).click()
    expect(card).to_contain_text("anyone has taken it on: on it")

    card.get_by_role("button", name="Silence…").click()
    page.get_by_role("button", name="Silence it", exact=True).click()
    expect(card).to_contain_text("silenced")
    silences = page.get_by_role("region", name="Silences")
    expect(silences).to_contain_text("subscriber-gone:orders/shop")
    silences.get_by_role("button", name="End it").click()
    expect(silences).to_be_hidden()
    expect(card).to_contain_text("taken on")

    page.get_by_role("button", name="Try the channels").click()
    expect(page.get_by_text("mail did not take it")).to_be_visible(timeout=WITHIN)

    card.get_by_role("link", name="Details").click()
    page.wait_for_url("**/admin/alarms/*")
    expect(page.locator(".pier-incident")).to_contain_text("410")
    assert not looker.findings()

    subscribers.configure("/gone=fail:0")
    bus.admin.pause("orders", "shop", paused=False)
    expect(page.locator(".pier-incident")).to_contain_text("over", timeout=WITHIN)
    page.get_by_role("link", name="Alarms", exact=True).click()
    expect(page.get_by_text("All is well")).to_be_visible()
    expect(page.get_by_role("region", name="Over")).to_contain_text("410")
    assert not looker.is_too_wide()
