"""``python -m tests.acceptance.pages.bad_hour FOLDER``: a bad hour, and pictures of the pages that people look at then.

Five destinations, twelve subscriptions of which nine misbehave, each in another way, and some thousand messages, really
sent. With ``--keep`` it goes on, with a little traffic, until Ctrl-C, for a person to look around.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import sync_playwright

from tests.acceptance.pages.looking import Looker
from tests.harness.bus_process import BusProcess
from tests.harness.subscribers import SubscriberProcess
from tests.harness.waiting import wait_until
from tests.servers import need

WIDTHS: Final = (1280, 1024, 390)
MESSAGES: Final = 3_000
DESTINATIONS: Final = ("orders", "payments", "stock", "mails", "ledger")
NOBODY: Final = "http://127.0.0.1:9/erp"
PATHS: Final = (
    "/well=fail:0",
    "/broken=fail:1,status:500",
    "/half=fail:0.5,status:503",
    "/picky=fail:0.3,status:422",
    "/gone=fail:1,status:410",
    "/slow=delay:1",
    "/hanging=delay:30",
)
_AT_ONCE: Final = 500
_TENANTS: Final = ("north", "south", "east")


def subscribe(bus: BusProcess, subscribers: SubscriberProcess) -> None:
    """Make the destinations and the subscriptions."""
    for code in DESTINATIONS:
        bus.admin.destination(code)

    def made(code: str, name: str, path: str, **fields: object) -> None:
        url = path if path.startswith("http") else subscribers.url(path)
        bus.admin.subscription(code, name, url, **fields)

    made("orders", "shop", "/well")
    made("orders", "erp", NOBODY)
    made("orders", "fraud", "/half", retry=["1s"], retry_max_attempts=2)
    made("payments", "billing", "/well")
    made("payments", "bank", "/broken", retry=["5s", "30s"])
    made("payments", "tax", "/picky", dead_on=[422])
    made("stock", "search", "/slow", max_concurrency=2)
    made("stock", "partner", "/hanging", timeout_seconds=1, max_concurrency=4)
    made("mails", "letters", "/gone")
    made("mails", "newsletter", "/well", rate=2)
    made("ledger", "archive", "/well")
    made("ledger", "audit", "/well")
    bus.admin.pause("ledger", "audit", paused=True)


def send(bus: BusProcess, numbers: Iterator[int], count: int) -> None:
    """Send so many messages, to all destinations in turn."""
    while count > 0:
        lines = [_line(number) for number in itertools.islice(numbers, min(count, _AT_ONCE))]
        body = b"\n".join(json.dumps(line).encode() for line in lines)
        head = {"content-type": "application/x-ndjson"}
        bus.admin.call("POST", "/v1/messages", content=body, headers=head).raise_for_status()
        count -= len(lines)


def _line(number: int) -> dict[str, Any]:
    return {
        "destination": DESTINATIONS[number % len(DESTINATIONS)],
        "biz_id": f"SO-{10_000 + number}",
        "key": f"c{number % 40}",
        "source": "shop" if number % 3 else "app",
        "headers": {"x-tenant": _TENANTS[number // len(DESTINATIONS) % len(_TENANTS)]},
        "body": {"order": number, "total": number % 977 / 10},
    }


@contextmanager
def bad_hour(folder: Path, messages: int = MESSAGES) -> Iterator[tuple[BusProcess, SubscriberProcess, Iterator[int]]]:
    """Run the bus and its subscribers, with so many messages sent and some of them dead."""
    numbers = itertools.count()
    with SubscriberProcess(folder, *PATHS, tally=True) as subscribers, BusProcess(folder / "data") as bus:
        subscribe(bus, subscribers)
        send(bus, numbers, messages)
        wait_until(lambda: any(bus.admin.messages(destination="payments", status="dead")), within=60, what="some died")
        yield bus, subscribers, numbers


def places(bus: BusProcess) -> dict[str, str]:
    """Return the pages that people look at, by name."""
    dead = next(bus.admin.messages(destination="payments", status="dead"))["id"]
    groups = bus.admin.call("GET", "/api/v1/failures?destination=payments&subscription=tax").json()["items"]
    group = "&".join(f"{name}={value}" for name, value in groups[0]["filter"].items())
    return {
        "overview": "/",
        "failures": "/failures",
        "failure": f"/failures/group?{group}",
        "find": "/find?destination=payments&last=1h",
        "find-nothing": "/find?destination=paymnts",
        "message": f"/messages/{dead}",
        "subscription": "/destinations/orders/subscriptions/erp",
        "destinations": "/destinations",
        "destination": "/destinations/stock",
        "alarms": "/alarms",
        "health": "/health",
    }


def take(bus: BusProcess, folder: Path, widths: tuple[int, ...] = WIDTHS) -> list[str]:
    """Take a picture of each page in each width; return what is wrong with any of them."""
    folder.mkdir(parents=True, exist_ok=True)
    troubles: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(need("chromium")), args=["--no-sandbox"])
        for width in widths:
            context = browser.new_context(viewport={"width": width, "height": 800}, timezone_id="Asia/Shanghai")
            looker = Looker(context, bus.url)
            for name, path in places(bus).items():
                looker.open(path).wait_for_timeout(1_500)
                looker.page.screenshot(path=folder / f"{name}-{width}.png")
                troubles += [f"{name} at {width}: {one}" for one in looker.findings()]
                troubles += [f"{name} at {width}: is too wide"] if looker.is_too_wide() else []
            troubles += looker.troubles
            context.close()
        browser.close()
    return troubles


def main() -> None:
    """Take the tour."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--keep", action="store_true", help="go on until Ctrl-C")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, bad_hour(Path(made), asked.messages) as (bus, _, numbers):
        for trouble in take(bus, asked.folder):
            print(trouble)
        print(f"pictures are in {asked.folder}")
        if asked.keep:
            print(f"{bus.url}/admin (Ctrl-C ends it)", flush=True)
            with suppress(KeyboardInterrupt):
                while True:
                    send(bus, numbers, 5)
                    time.sleep(1)


if __name__ == "__main__":
    main()
