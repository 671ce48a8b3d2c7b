"""Users and keys are made, changed and ended by an admin; the first one closes the bus."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.pages.conftest import Look
from tests.acceptance.pages.entering import House, Person
from tests.acceptance.pages.looking import Looker
from tests.harness.bus_process import BusProcess


def enter(look: Look, house: House, path: str, **options: object) -> tuple[Looker, Page]:
    looker = look(house.bus, **options)
    house.root.enter(looker)
    return looker, looker.open(path)


def shown(page: Page, label: str) -> str:
    """Return a secret that the page shows once."""
    found = page.get_by_label(label, exact=True)
    expect(found).to_be_visible()
    return found.inner_text()


def leave_the_first_key(page: Page, bus: BusProcess) -> None:
    """Try to close a bus by a key, from the page that makes one."""
    page.get_by_role("button", name="Make the key").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("nobody can configure this bus over HTTP")
    expect(dialog.get_by_role("button", name="Make the key")).to_be_disabled()
    page.get_by_role("button", name="Leave it").click()
    expect(dialog).to_have_count(0)
    assert bus.admin.call("GET", "/api/v1/keys").json()["items"] == []


def stay_the_only_admin(page: Page, name: str) -> None:
    """Try to leave a bus without an admin, from the page of its last user."""
    expect(page.get_by_text("This is the only admin")).to_be_visible()
    expect(page.get_by_text("This is you", exact=True)).to_be_visible()
    page.get_by_role("radio", name="viewer").click()
    page.get_by_role("button", name="Change", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("nobody can configure this bus over HTTP")
    expect(dialog.get_by_role("button", name="Take it")).to_be_disabled()
    page.get_by_role("button", name="Leave it").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    dialog.get_by_label(f"Type {name} to go on").fill(name)
    dialog.get_by_role("button", name="Remove the user").click()
    # Without any user or key the bus would be open, which the API refuses.
    expect(page.get_by_text("this is the last user")).to_be_visible()


def test_the_first_admin_closes_the_bus_and_nobody_is_locked_out_unaware(look: Look, tmp_path: Path) -> None:
    with BusProcess(tmp_path / "data") as bus:
        looker = look(bus)
        leave_the_first_key(looker.open("/access/new-key"), bus)
        page = looker.open("/access")
        expect(page.get_by_text("The bus is open: the first user or key closes it")).to_be_visible()
        expect(page.get_by_text("Producers need a key")).to_be_visible()
        page.get_by_role("link", name="New user").click()
        page.get_by_label("Name", exact=True).fill("ann")
        expect(page.get_by_role("radio", name="admin")).to_be_checked()
        page.get_by_role("button", name="Make the user").click()
        password = shown(page, "Password")
        assert bus.admin.call("GET", "/api/v1/destinations").status_code == 401
        # The session of the open bus ends within seconds, and the password is there as long as it is needed.
        page.wait_for_function("!window.socket.connected")
        assert shown(page, "Password") == password
        page.get_by_role("link", name="Log in").click()
        page.get_by_label("Name").fill("ann")
        page.get_by_label("Password", exact=True).fill(password)
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{bus.url}/admin/access")
        page.get_by_role("link", name="ann (you)").click()
        stay_the_only_admin(page, "ann")


def test_a_user_is_made_limited_promoted_reset_and_removed(look: Look, house: House) -> None:
    house.root.call("PUT", "/destinations/access.bob", json={})
    _, page = enter(look, house, "/access/new-user")
    page.get_by_label("Name", exact=True).fill("bob")
    page.get_by_label("Limited to destinations").click()
    page.get_by_role("option", name="access.bob").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Make the user").click()
    expect(page.get_by_role("heading", name="bob may log in now")).to_be_visible()
    with Person(house.bus.url, "bob", shown(page, "Password")) as bob:
        assert bob.call("GET", "/session").json()["destinations"] == ["access.bob"]
        page.get_by_role("link", name="I have kept it").click()
        page.get_by_role("link", name="bob").click()
        page.get_by_role("radio", name="operator").click()
        page.get_by_role("button", name="Change", exact=True).click()
        expect(page.get_by_text("Changed; it holds for open sessions too.")).to_be_visible()
        assert bob.call("GET", "/session").json()["roles"] == ["operator"]
        page.get_by_role("button", name="Reset the password").click()
        page.get_by_role("button", name="Make another password").click()
        password = shown(page, "Password")
        assert bob.http.get("/session").status_code == 401
    with Person(house.bus.url, "bob", password) as bob:
        page.goto(f"{house.bus.url}/admin/access/users/bob")
        page.wait_for_function("window.did_handshake === true")
        page.get_by_role("button", name="Block", exact=True).click()
        page.get_by_role("button", name="Block the user").click()
        expect(page.get_by_text("This user is blocked")).to_be_visible()
        assert bob.http.get("/session").status_code == 401
    page.wait_for_function("window.did_handshake === true")
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("All sessions of bob end")
    page.get_by_role("button", name="Remove the user").click()
    expect(page).to_have_url(f"{house.bus.url}/admin/access")
    expect(page.get_by_role("link", name="bob")).to_have_count(0)
    page.goto(f"{house.bus.url}/admin/access/users/bob")
    expect(page.get_by_text("There is nothing here")).to_be_visible()


def test_what_the_api_holds_against_a_name_stands_at_it(look: Look, house: House) -> None:
    _, page = enter(look, house, "/access/new-user")
    for name, said in (("<b>ann</b>", "name:"), ("root", "there is a user 'root' already")):
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_role("button", name="Make the user").click()
        expect(page.get_by_text(said)).to_be_visible()


def test_a_key_is_made_shown_once_copied_and_revoked(look: Look, house: House) -> None:
    house.root.call("PUT", "/destinations/access.key", json={})
    looker, page = enter(look, house, "/access/new-key")
    looker.context.grant_permissions(["clipboard-read", "clipboard-write"])
    hostile = "<img src=x onerror=alert(1)>\u202egnp.exe"
    page.get_by_label("Name", exact=True).fill(hostile)
    page.get_by_role("button", name="Make the key").click()
    key = shown(page, "Authorization: Bearer")
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == key
    bearer = {"authorization": f"Bearer {key}"}
    assert house.bus.admin.send("access.key", b"{}", **bearer).status_code == 202
    page.get_by_role("link", name="I have kept it").click()
    made = page.get_by_role("row").filter(has_text=hostile)
    expect(made).to_have_count(1)
    expect(made.get_by_role("cell", name="never")).to_have_count(0)
    assert key not in page.content()
    page.get_by_role("link", name=hostile).click()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_role("button", name="Revoke the key").click()
    expect(page).to_have_url(f"{house.bus.url}/admin/access")
    assert house.bus.admin.send("access.key", b"{}", **bearer).status_code == 401


@pytest.mark.parametrize(("width", "language"), [(1280, "en"), pytest.param(390, "zh", marks=pytest.mark.proof)])
def test_the_pages_are_accessible_and_fit(look: Look, house: House, width: int, language: str) -> None:
    looker, _ = enter(look, house, "/access", width=width, language=language)
    for path in ("", "/new-user", "/new-key", "/users/root"):
        looker.open(f"/access{path}")
        assert not looker.findings()
        assert not looker.is_too_wide()
