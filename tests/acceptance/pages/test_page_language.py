"""Texts of the bus are Chinese in Chinese pages; texts of others stay."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.sending import WITHIN, send, settled
from tests.harness.bus_process import BusProcess
from tests.harness.waiting import wait_until

CODE = "page.tongue"
AWAY = "http://127.0.0.1:9/x"


@pytest.fixture(scope="module")
def dead(open_bus: BusProcess) -> str:
    """Send messages to a subscriber that is away, and return the id of one that died."""
    open_bus.admin.destination(CODE)
    open_bus.admin.subscription(CODE, "gone", AWAY, retry=["1h"], retry_max_attempts=1)
    first, *_ = [send(open_bus, CODE, {"order": n}, source="shop") for n in range(8)]
    settled(open_bus, first, "dead")
    return first


@pytest.mark.usefixtures("dead")
def test_an_alarm_and_its_next_step(look: Look) -> None:
    alarms = look(language="zh").open().get_by_role("region", name="告警")
    expect(alarms.get_by_text(f"{CODE} 的订阅者 gone 无应答；其熔断器已在")).to_be_visible()
    expect(alarms.get_by_text("查看其是否在运行，恢复后向其发送样例").first).to_be_visible()


def test_the_steps_of_a_life_and_how_it_ended(look: Look, dead: str) -> None:
    page = look(language="zh").open(f"/messages/{dead}")
    steps = page.locator("ol.pier-steps")
    for step in ("由 shop 发送", "已接收，", "已由分发器接手", "第 1 次尝试", "已放弃："):
        expect(steps.get_by_text(step).first).to_be_visible()
    delivery = page.get_by_role("region", name="投递到 gone")
    expect(delivery.get_by_text("；重试 1 次后用尽")).to_be_visible()


def test_the_same_life_in_english(look: Look, dead: str) -> None:
    steps = look().open(f"/messages/{dead}").locator("ol.pier-steps")
    for step in ("sent by shop", "attempt 1", "retries exhausted after 1"):
        expect(steps.get_by_text(step).first).to_be_visible()


def test_why_something_waits_and_may_not_be_done(look: Look, open_bus: BusProcess) -> None:
    code = f"{CODE}.held"
    open_bus.admin.destination(code, paused=True)
    open_bus.admin.subscription(code, "gone", AWAY)
    sent = send(open_bus, code, {})
    settled(open_bus, sent, "pending")
    looker = look(language="zh")
    page = looker.open(f"/messages/{sent}")
    expect(page.get_by_text("已暂停 · 目的地已暂停")).to_be_visible()
    looker.open(f"/destinations/{code}")
    expect(page.get_by_role("button", name="移除")).to_have_attribute("aria-description", f"'{code}' 仍有订阅")
    job = open_bus.admin.call(
        "POST", "/api/v1/resends", json={"filter": {"destination": code}, "reason": "resent by x"}
    )
    path = f"/api/v1/resends/{job.raise_for_status().json()['id']}"
    wait_until(
        lambda: open_bus.admin.call("GET", path).json()["state"] == "done", within=WITHIN, what=f"{path} is done"
    )
    looker.open(path.removeprefix("/api/v1"))
    expect(page.get_by_text("仍待投递：正在途中")).to_be_visible()
    expect(page.get_by_text("resent by x")).to_be_visible()


def test_a_refusal(look: Look) -> None:
    page = look(language="zh").open("/destinations/page.nobody")
    expect(page.get_by_text("没有目的地 'page.nobody'")).to_be_visible()
    expect(page.get_by_text("可用此命令创建：bus destination set page.nobody")).to_be_visible()


def test_who_resent_without_a_word(look: Look, open_bus: BusProcess, dead: str) -> None:
    job = open_bus.admin.call("POST", f"/api/v1/messages/{dead}/resend", json={"subscriptions": None})
    page = look(language="zh").open(f"/resends/{job.raise_for_status().json()['id']}")
    expect(page.get_by_role("region", name="任务").get_by_text("由 anyone 重发")).to_be_visible()


@pytest.mark.usefixtures("dead")
def test_what_is_wrong_with_a_value_of_a_form(look: Look) -> None:
    page = look(language="zh").open(f"/destinations/{CODE}/new-subscription")
    page.get_by_label("名称").fill("second")
    page.get_by_label("URL").fill("http://user:secret@example.com/")
    page.get_by_role("button", name="创建").click()
    expect(page.get_by_text("URL 中含有用户信息。").first).to_be_visible()
