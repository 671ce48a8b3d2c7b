"""People log in, see what they may, change their password, and are led back when a session has ended."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, WebSocket, expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House, Person
from tests.harness.bus_process import BusProcess

NEW = "correct horse battery staple"


@pytest.fixture(scope="module")
def closed(house: House) -> House:
    """Give the operator of one destination."""
    house.invite("ann", "operator", "orders")
    return house


def fill(page: Page, name: str, password: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Log in").click()


def test_i_see_who_i_am_and_change_my_password_past_the_socket(look: Look, closed: House) -> None:
    looker = look(closed.bus).begin_anew()  # a tab that goes, and what listens to it
    page = looker.page
    said: list[str] = []

    def listen(socket: WebSocket) -> None:
        socket.on("framesent", lambda text: said.append(str(text)))

    page.on("websocket", listen)
    password = closed.reset("ann")
    looker.log_in("ann", password, "/account")
    card = page.get_by_role("region", name="Who I am")
    for text in ("ann", "operator", "orders", "see messages and figures, resend, pause and resume", "30 min"):
        expect(card).to_contain_text(text)

    def change(current: str, new: str, again: str) -> None:
        page.get_by_label("Present password").fill(current)
        page.get_by_label("New password", exact=True).fill(new)
        page.get_by_label("New password again").fill(again)
        page.get_by_role("button", name="Change the password").click()

    problem = page.get_by_role("region", name="Change my password").get_by_role("alert")
    change(password, NEW, f"{NEW}r")
    expect(problem).to_have_text("The two new passwords differ.")
    change("wrong", NEW, NEW)
    expect(problem).to_contain_text("this is not the present password")
    expect(page.get_by_label("Present password")).to_be_focused()
    with Person(closed.bus.url, "ann", password) as elsewhere:
        change(password, NEW, NEW)
        expect(page.get_by_text("Your password is changed")).to_be_visible()
        assert elsewhere.http.get("/session").status_code == 401
    page.wait_for_function("window.did_handshake === true")
    assert said
    assert not [text for text in said if NEW in text or password in text]
    assert all(cookie["sameSite"] == "Strict" and cookie["httpOnly"] for cookie in session(looker.context.cookies()))
    page.get_by_role("button", name="Log out").click()
    page.wait_for_url(f"{closed.bus.url}/admin/login")
    with Person(closed.bus.url, "ann", NEW):
        pass


def session(cookies: list[dict[str, object]]) -> list[dict[str, object]]:
    found = [cookie for cookie in cookies if str(cookie["name"]) in ("bus_session", "bus_device")]
    assert len(found) == 2
    return found


def test_a_page_left_open_leads_to_log_in_and_back(look: Look, closed: House) -> None:
    looker = look(closed.bus)
    page = looker.log_in("ann", closed.reset("ann"), "/find?ref=42&q=%26")
    # Nothing is clicked: the page finds out by itself, within seconds.
    password = closed.reset("ann")
    expect(page.get_by_text("Your session has ended.")).to_be_visible(timeout=60_000)
    fill(page, "ann", password)
    expect(page).to_have_url(f"{closed.bus.url}/admin/find?ref=42&q=%26")


def test_who_fails_often_is_told_how_long_to_wait(look: Look, closed: House) -> None:
    page = look(closed.bus).page
    page.goto(f"{closed.bus.url}/admin/login")
    alert = page.get_by_role("alert")
    for _ in range(7):
        fill(page, "nobody", "wrong")
        expect(alert).to_be_visible()
        if "try again in" in alert.inner_text():
            break
    expect(alert).to_contain_text("try again in")
    expect(page.get_by_role("button", name="Log in")).to_be_disabled()
    # It comes back by itself.
    expect(page.get_by_role("button", name="Log in")).to_be_enabled()
    expect(alert).to_be_hidden()


def test_the_form_is_one_that_a_password_manager_fills_and_no_address_gets(look: Look, closed: House) -> None:
    page = look(closed.bus).page
    page.goto(f"{closed.bus.url}/admin/login")
    expect(page.get_by_label("Name")).to_have_attribute("autocomplete", "username")
    expect(page.get_by_label("Password", exact=True)).to_have_attribute("autocomplete", "current-password")
    # Sent without the script, it would not put the password into the URL.
    expect(page.locator("form")).to_have_attribute("method", "post")


@pytest.mark.parametrize(
    "place",
    [
        "//evil.example/admin/",
        *(
            pytest.param(place, marks=pytest.mark.proof)
            for place in ("https://evil.example/", "javascript:alert(1)", "http://[")
        ),
    ],
)
def test_a_login_leads_nowhere_else(look: Look, closed: House, place: str) -> None:
    looker = look(closed.bus)
    page = looker.page
    page.goto(f"{closed.bus.url}/admin/login?next={place}")
    fill(page, "ann", closed.reset("ann"))
    page.wait_for_url(f"{closed.bus.url}/admin/")
    assert all(f" {closed.bus.url}/" in way for way in looker.went)


def test_a_link_from_elsewhere_finds_who_is_logged_in(look: Look, closed: House, open_bus: BusProcess) -> None:
    looker = look(closed.bus)
    page = looker.log_in("ann", closed.reset("ann"), "/")
    # A page of another site leads here: its request has no SameSite=Strict cookie.
    other = open_bus.url.replace("127.0.0.1", "localhost")
    page.goto(f"{other}/healthz")
    place = f"{closed.bus.url}/admin/find?ref=42"
    page.evaluate("place => location.assign(place)", place)
    expect(page).to_have_url(place)


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), pytest.param(390, "zh", marks=pytest.mark.proof)])
def test_the_pages_are_accessible_and_fit(look: Look, closed: House, width: int, language: str) -> None:
    looker = look(closed.bus, width=width, language=language)
    looker.page.goto(f"{closed.bus.url}/admin/login?ended=1")
    assert not looker.findings()
    assert not looker.is_too_wide()
    closed.root.enter(looker)
    looker.open("/account")
    assert not looker.findings()
    assert not looker.is_too_wide()
