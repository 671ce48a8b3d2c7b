"""A viewer, an operator of one destination and an admin see and do what they may, over all pages."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House
from tests.harness.waiting import wait_until

FOR_ALL = ["Overview", "Alarms", "Find", "Failures", "Resends", "Destinations", "Producers", "Health", "Pipeline"]
FOR_ADMINS = ["Audit log", "Access"]
ORDERS, MAILS = "/destinations/role.orders/subscriptions/billing", "/destinations/role.mails/subscriptions/billing"
ADMIN_PAGES = [
    "/audit",
    "/access",
    "/access/new-user",
    "/access/new-key",
    "/access/users/root",
    "/new-destination",
    "/destinations/role.orders/edit",
    "/destinations/role.orders/new-subscription",
    f"{ORDERS}/edit",
]
FORBIDDEN = "You may not see or do this"


class Staffed:
    """A closed bus with two destinations, and its people by name."""

    def __init__(self, house: House) -> None:
        self.bus = house.bus
        self.root = house.root
        self.people = {
            "root": house.root,
            "vera": house.person("vera", "viewer"),
            "olga": house.person("olga", "operator", "role.orders"),
        }
        for subscription in (ORDERS, MAILS):
            self.root.call("PUT", subscription.partition("/subscriptions")[0], json={})
            self.root.call("PUT", subscription, json={"url": "http://127.0.0.1:9/x"})

    def open_message(self) -> str:
        """Send a message that nobody takes, so that its page goes on following it; return its id."""
        sent = str(self.bus.admin.send("role.orders", b"{}").raise_for_status().json()["id"])
        wait_until(lambda: self.root.http.get(f"/messages/{sent}").is_success, within=30, what="the message is stored")
        return sent

    def paused(self, subscription: str) -> bool:
        """Whether a subscription is paused."""
        return bool(self.root.call("GET", subscription).json()["paused"])


@pytest.fixture(scope="module")
def staffed(house: House) -> Staffed:
    return Staffed(house)


def enter(look: Look, staffed: Staffed, name: str, path: str = "/") -> Page:
    looker = look(staffed.bus)
    staffed.people[name].enter(looker)
    return looker.open(path)


def go(page: Page, staffed: Staffed, path: str) -> None:
    page.goto(f"{staffed.bus.url}/admin{path}")
    page.wait_for_function("window.did_handshake === true")


@pytest.mark.parametrize("name", [pytest.param("vera", marks=pytest.mark.proof), "olga", "root"])
def test_the_navigation_leads_where_one_may_go(look: Look, staffed: Staffed, name: str) -> None:
    page = enter(look, staffed, name)
    entries = page.get_by_role("navigation", name="Pages").get_by_role("link")
    expect(entries).to_have_count(len(FOR_ALL) + (len(FOR_ADMINS) if name == "root" else 0))
    for text in FOR_ALL:
        expect(entries.filter(has_text=text).first).to_be_visible()
    for text in FOR_ADMINS if name == "root" else ():
        expect(entries.filter(has_text=text)).to_be_visible()


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        pytest.param("olga", ["/audit", "/access/users/root", f"{ORDERS}/edit"], id="olga"),
        *(
            pytest.param(name, [*ADMIN_PAGES, "/access/keys/x"], id=f"{name}-all", marks=pytest.mark.proof)
            for name in ("olga", "vera")
        ),
    ],
)
def test_who_types_an_admins_url_is_refused(look: Look, staffed: Staffed, name: str, paths: list[str]) -> None:
    looker = look(staffed.bus)
    staffed.people[name].enter(looker)
    for path in paths:
        page = looker.open(path)
        expect(page.get_by_text(FORBIDDEN)).to_be_visible()
        expect(page.locator("#pier-content :is(table, form)")).to_have_count(0)


@pytest.mark.proof
def test_an_admin_sees_every_page(look: Look, staffed: Staffed) -> None:
    page = enter(look, staffed, "root")
    for path in (
        "/",
        "/find",
        "/failures",
        "/resends",
        "/destinations",
        "/producers",
        "/health",
        *ADMIN_PAGES,
        "/account",
    ):
        go(page, staffed, path)
        expect(page.locator("h1")).to_be_visible()
        expect(page.get_by_text(FORBIDDEN)).to_have_count(0)


def test_an_operator_sees_and_pauses_their_destination_alone(look: Look, staffed: Staffed) -> None:
    page = enter(look, staffed, "olga", "/destinations")
    expect(page.get_by_role("link", name="role.orders")).to_be_visible()
    expect(page.locator("#pier-content").get_by_text("role.mails")).to_have_count(0)
    for path in ("/destinations/role.mails", MAILS):
        go(page, staffed, path)
        expect(page.get_by_text("olga may not read on 'role.mails'")).to_be_visible()
    go(page, staffed, ORDERS)
    for action in ("Edit", "Remove", "Rotate the secret"):
        expect(page.locator("#pier-content").get_by_text(action, exact=True)).to_have_count(0)
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert staffed.paused(ORDERS)
    page.wait_for_function("window.did_handshake === true")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert not staffed.paused(ORDERS)


def test_a_viewer_sees_all_and_is_offered_no_change(look: Look, staffed: Staffed) -> None:
    page = enter(look, staffed, "vera", "/destinations")
    expect(page.get_by_role("link", name="role.mails")).to_be_visible()
    expect(page.locator("#pier-content").get_by_text("New destination", exact=True)).to_have_count(0)
    for path in ("/destinations/role.orders", ORDERS):
        go(page, staffed, path)
        expect(page.locator("h1")).to_be_visible()
        for action in ("New subscription", "Pause", "Resume", "Edit", "Remove", "Rotate the secret"):
            expect(page.locator("#pier-content").get_by_text(action, exact=True)).to_have_count(0)


def test_a_change_after_the_role_was_taken_is_refused_in_the_open_page(look: Look, staffed: Staffed) -> None:
    root = staffed.root
    page = enter(look, staffed, "olga", ORDERS)
    said = len(staffed.bus.child.output())
    page.get_by_role("button", name="Pause").click()
    root.call("PATCH", "/users/olga", json={"role": "viewer"})
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_text("olga may not pause")).to_be_visible()
    assert not staffed.paused(ORDERS)
    root.call("PATCH", "/users/olga", json={"role": "operator"})
    assert "Refused" not in staffed.bus.child.output()[said:]  # it is the viewer's to read, and nobody else's trouble


@pytest.mark.parametrize("kind", [pytest.param("job", marks=pytest.mark.proof), "message"])
def test_a_page_that_may_follow_no_more_says_since_when_and_goes_on_later(
    look: Look, staffed: Staffed, kind: str
) -> None:
    root = staffed.root
    if kind == "job":
        job = root.call(
            "POST", "/resends", json={"filter": {"destination": "role.orders"}, "reason": "to look at"}
        ).json()
        path = f"/resends/{job['id']}"
    else:
        path = f"/messages/{staffed.open_message()}"
    page = enter(look, staffed, "olga", path)
    shown = page.get_by_text("0 selected = " if kind == "job" else "Timeline")
    expect(shown).to_be_visible()  # or what may no longer be seen would be asked for only now
    root.call("PATCH", "/users/olga", json={"destinations": ["role.mails"]})
    stale = page.get_by_role("status").filter(has_text="Not up to date since")
    expect(stale).to_have_count(1, timeout=60_000)
    expect(shown).to_be_visible()
    expect(page.locator(".q-notification")).to_have_count(0)
    root.call("PATCH", "/users/olga", json={"destinations": ["role.orders"]})
    expect(stale).to_have_count(0, timeout=60_000)


@pytest.mark.proof
def test_the_open_page_of_who_is_removed_stops_within_seconds(look: Look, staffed: Staffed) -> None:
    root = staffed.root
    made = root.call("POST", "/users", json={"name": "tim", "role": "admin"}).json()
    looker = look(staffed.bus)
    page = looker.log_in("tim", made["password"], "/destinations/role.orders")
    root.call("DELETE", "/users/tim")
    # Nothing is touched: the socket is closed, and what it showed is gone.
    expect(page).to_have_url(
        f"{staffed.bus.url}/admin/login?ended=1&next=%2Fadmin%2Fdestinations%2Frole.orders", timeout=10_000
    )
    expect(page.get_by_text("role.orders")).to_have_count(0)
    for path in ("/destinations", "/audit"):
        page.goto(f"{staffed.bus.url}/admin{path}")
        expect(page.get_by_role("button", name="Log in")).to_be_visible()
