"""``python -m tests.acceptance.pages.pictures FOLDER``: pictures of every page, of a bus at work.

The data is made by really sending: a shop whose fraud check fails, whose old ERP is gone, and whose mails are slow.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests.acceptance.pages.looking import Looker
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import chromium

DESTINATIONS = ("order.created", "order.cancelled", "payment.settled", "stock.moved", "customer.updated")
SOURCES = ("shop", "erp", "app")
MESSAGES = 600
WIDE, NARROW = (1280, 860), (390, 844)


class Shop:
    """A bus with the traffic of a shop."""

    def __init__(self, bus: BusProcess, subscribers: SubscriberProcess) -> None:
        self.admin = bus.admin
        self._chance = random.Random(7)
        for code in DESTINATIONS:
            self.admin.destination(code)
            for name in ("billing", "search-index"):
                self.admin.subscription(code, name, subscribers.url(f"/{name}"), secret="auto")
        self.admin.destination("customer.updated", mask=["body.email"])
        self.admin.subscription("payment.settled", "mail", subscribers.url("/mail"), secret="auto")
        fraud = subscribers.url("/fraud")
        self.admin.subscription("order.cancelled", "fraud", fraud, retry=["1s"], retry_max_attempts=2)
        self.admin.subscription("order.created", "legacy-erp", "http://127.0.0.1:9/erp")
        self.sent = {code: [self.send(code, number) for number in range(MESSAGES // 5)] for code in DESTINATIONS}

    def send(self, code: str, number: int) -> str:
        """Send one message and return its id."""
        lines = [{"sku": f"A-{self._chance.randint(1, 40)}", "count": self._chance.randint(1, 5)}]
        total = self._chance.randint(1000, 90_000) / 100
        body = {"order": {"id": number, "total": total, "lines": lines}, "email": "ada@example.com"}
        head = {"bus_biz_id": f"SO-{4000 + number}", "bus_key": f"c{number % 50}", "bus_source": SOURCES[number % 3]}
        return str(self.admin.send(code, json.dumps(body).encode(), **head).raise_for_status().json()["id"])

    def traffic(self) -> None:
        """Send what an overview of now can show."""
        for number in range(100):
            self.send(DESTINATIONS[number % 5], number)

    def dead(self) -> str | None:
        """Return a message that the fraud check did not take."""
        found = [row["id"] for row in self.admin.messages(destination="order.cancelled", status="dead")]
        return found[0] if len(found) >= 10 else None

    def resend(self, subscribers: SubscriberProcess) -> str:
        """Mend the fraud check, resend what it missed, and return the job."""
        subscribers.configure("/fraud=fail:0")
        wanted = {"filter": {"destination": "order.cancelled", "status": "dead"}, "reason": "the fraud check is mended"}
        job = self.admin.call("POST", "/api/v1/resends", json=wanted).raise_for_status().json()["id"]
        place = f"/api/v1/resends/{job}"
        wait_until(lambda: self.admin.call("GET", place).json()["state"] == "done", within=60, what="all is resent")
        return str(job)


@contextmanager
def shop() -> Iterator[tuple[BusProcess, SubscriberProcess]]:
    """Run the bus and its subscribers."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        paths = ("/mail=delay:0.15", "/fraud=fail:0.85,status:503", "/billing=delay:0.01")
        with SubscriberProcess(folder, *paths) as subscribers, BusProcess(folder / "data") as bus:
            yield bus, subscribers


def take(browser: Browser, url: str, folder: Path, name: str, path: str, *, size: tuple[int, int], dark: bool) -> None:
    """Take one picture."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        locale="zh-CN" if name.endswith("-chinese") else "en-GB",
        timezone_id="Asia/Shanghai",
        color_scheme="dark" if dark else "light",
    )
    looker = Looker(context, url)
    page = looker.open(path)
    page.wait_for_load_state("networkidle") if not page.locator(".pier-live").count() else page.wait_for_timeout(2500)
    _open_details(page, name)
    page.screenshot(path=folder / f"{name}.png")
    context.close()


def _open_details(page: Page, name: str) -> None:
    if name == "message":
        page.get_by_role("button", name="Show body").click()
        page.locator("pre").first.wait_for()


def main(folder: Path) -> None:
    """Take them all."""
    executable = chromium.find()
    if executable is None:
        sys.exit("there is no Chromium: python -m tests.servers install chromium")
    folder.mkdir(parents=True, exist_ok=True)
    with shop() as (bus, subscribers), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(executable), args=["--no-sandbox"])
        data = Shop(bus, subscribers)
        message = wait_until(data.dead, within=120, what="some are dead")
        places = {
            "overview": "/",
            "find": "/find?destination=order.cancelled",
            "message": f"/messages/{message}",
            "failures": "/failures",
            "new-resend": "/resends/new?destination=order.cancelled&status=dead",
            "destinations": "/destinations",
            "destination": "/destinations/order.created",
            "subscription": "/destinations/payment.settled/subscriptions/mail",
            "edit-subscription": "/destinations/payment.settled/subscriptions/mail/edit",
            "health": "/health",
            "audit": "/audit",
            "access": "/access",
        }
        for name, path in places.items():
            data.traffic()
            take(browser, bus.url, folder, name, path, size=WIDE, dark=False)
            print(name, flush=True)
        data.traffic()
        take(browser, bus.url, folder, "overview-dark", "/", size=WIDE, dark=True)
        take(browser, bus.url, folder, "overview-chinese", "/", size=WIDE, dark=False)
        take(browser, bus.url, folder, "overview-narrow", "/", size=NARROW, dark=False)
        take(browser, bus.url, folder, "resend", f"/resends/{data.resend(subscribers)}", size=WIDE, dark=False)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
