"""A strictly ordered destination on its page: the chain as a picture, what blocks it, and a group that is given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from bus.domain.ordering.document import COLLECTION
from bus.files import write_whole
from bus.stores.sqlite import SqliteStore
from tests.acceptance.pages.conftest import Look
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.unit.admin.chain_shapes import SHAPES

CODE = "page.strict"
PLACE = f"/destinations/{CODE}"
ORDERING = f"/api/v1{PLACE}/ordering"


class Strict:
    """A bus whose first group is dead with a backlog, and whose senders went on with the second."""

    def __init__(self, bus: BusProcess, told: Path, subscribers: SubscriberProcess) -> None:
        self.bus = bus
        self._told = told
        bus.admin.destination(CODE, transport="kafka", ordering="strict")
        for name in ("billing", "mail"):
            bus.admin.subscription(CODE, name, subscribers.url(f"/{CODE}/{name}"))
        bus.admin.call("PATCH", f"/api/v1{PLACE}/subscriptions/billing", json={"paused": True})
        self.send()
        self.set_copies(2)
        self.send()
        wait_until(lambda: self.segments() == {"g1": ["mail"], "g2": []}, within=60, what="mail has read g1")
        self.set_copies(0)
        wait_until(lambda: self.read()["blocked"], within=60, what="billing waits")

    def set_copies(self, count: int) -> None:
        write_whole(self._told, json.dumps({"g1": count}).encode())
        wait_until(lambda: self._trouble() == (count < 3), within=60, what="the bus has seen it")

    def send(self) -> None:
        wait_until(lambda: self.bus.admin.send(CODE, b"{}").status_code == 202, within=60, what="it is accepted")

    def read(self) -> dict:
        return self.bus.admin.call("GET", ORDERING).json()

    def segments(self) -> dict[str, list[str]]:
        return {one["group"]: one["drained"] for one in self.read()["consume"]}

    def _trouble(self) -> bool:
        return any(group["trouble"] for group in self.read()["groups"] if group["name"] == "g1")


@pytest.fixture
def strict(tmp_path: Path, subscribers: SubscriberProcess) -> Iterator[Strict]:
    told = tmp_path / "copies.json"
    with BusProcess(tmp_path / "data", instead=("tests.harness.grouped_bus", told)) as bus:
        yield Strict(bus, told, subscribers)


def picture(page: Page) -> Locator:
    return page.get_by_role("region", name="Strict order")


def test_a_chain_is_shown_and_a_dead_group_is_given_up(look: Look, strict: Strict) -> None:
    looker = look(strict.bus)
    page = looker.open(PLACE)
    dead, current = picture(page).get_by_role("listitem").all()
    for said in ("g1", "does not answer", "billing", "nobody can say what waits", "mail", "read to its end"):
        expect(dead).to_contain_text(said)
    expect(current).to_contain_text("takes messages")
    expect(page.get_by_text("billing of page.strict wait for group g1, which does not answer")).to_be_visible()
    expect(page.get_by_text("all messages one after another, on groups of brokers")).to_be_visible()
    assert not looker.findings()
    assert not looker.is_too_wide()

    dead.get_by_role("button", name="Lost for good…").click()
    asking = page.get_by_role("dialog")
    expect(asking).to_contain_text("nobody can say how many messages wait on group g1")
    asking.get_by_role("button", name="Remove it from the chain").click()
    expect(asking.get_by_text("It needs a reason.")).to_be_visible()
    asking.get_by_label("Reason").fill("its disks are gone")
    asking.get_by_label("Type g1 to go on").fill("g1")
    asking.get_by_role("button", name="Remove it from the chain").click()
    expect(picture(page).get_by_role("listitem")).to_have_count(1)
    expect(page.get_by_text("wait for group g1")).to_have_count(0)
    assert strict.segments() == {"g2": []}
    (entry,) = strict.bus.admin.call("GET", f"/api/v1/audit?what=destinations/{CODE}/ordering").json()["items"][:1]
    assert entry["changes"]["reason"]["after"] == "its disks are gone"


def test_a_message_is_resent_out_of_order_only_when_that_is_wanted(look: Look, strict: Strict) -> None:
    sent = wait_until(
        lambda: list(strict.bus.admin.messages(destination=CODE)), within=60, what="they are in the store"
    )
    page = look(strict.bus).open(f"/messages/{sent[-1]['id']}")
    page.get_by_role("button", name="Resend…", exact=True).click()
    for name in ("billing", "mail"):  # the one waits still, and is chosen; the other was delivered
        page.get_by_role("dialog").get_by_role("checkbox", name=name).click()
    for answer, closed in (("Leave it", 1), ("Send it out of order", 0)):
        page.get_by_role("button", name="Resend", exact=True).click()
        asking = page.get_by_role("dialog", name="Send it out of order?")
        expect(asking).to_contain_text("comes behind all younger messages")
        asking.get_by_role("button", name=answer).click()
        expect(page.get_by_role("dialog")).to_have_count(closed)
    expect(page.get_by_text("It is delivered again to")).to_be_visible()


def _keep_shapes(data: Path) -> None:
    """Have the store of a bus that does not run keep a chain of every shape."""

    async def write() -> None:
        store = await SqliteStore.open(data / "store")
        try:
            for number, document in enumerate(SHAPES.values()):
                if document is not None:
                    await store.put(COLLECTION, f"shape{number}", document)
        finally:
            await store.close()

    with ThreadPoolExecutor() as pool:  # the browser's loop runs in this thread
        pool.submit(asyncio.run, write()).result()


def test_a_chain_of_any_shape_is_shown_by_a_process_that_only_looks_on(look: Look, tmp_path: Path) -> None:
    data = tmp_path / "data"
    _keep_shapes(data)
    with BusProcess(data, role="admin", instead=("tests.harness.grouped_bus", tmp_path / "none")) as bus:
        looker = look(bus)
        for number, name in enumerate(SHAPES):
            bus.admin.destination(f"shape{number}", transport="kafka", ordering="strict")
            bus.admin.subscription(f"shape{number}", "billing", "http://127.0.0.1:9/")
            page = looker.open(f"/destinations/shape{number}")
            expect(picture(page)).to_be_visible()
            blocked = bus.admin.call("GET", f"/api/v1/destinations/shape{number}/ordering").json()["blocked"]
            expect(picture(page).locator(".pier-note"), name).to_have_count(len(blocked))
            expect(page.get_by_text("This did not work")).to_have_count(0)
            assert not looker.is_too_wide()


@pytest.mark.proof
def test_a_chain_fits_a_narrow_window_in_chinese(look: Look, strict: Strict) -> None:
    looker = look(strict.bus, width=390, language="zh", dark=True)
    page = looker.open(PLACE)
    expect(page.locator(".pier-segment")).to_have_count(2)
    assert not looker.findings()
    assert not looker.is_too_wide()
