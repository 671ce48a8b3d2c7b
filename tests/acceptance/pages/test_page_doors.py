"""Requests from outside of our pages reach no page and no socket; asked of a real bus without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import urlencode

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.acceptance.pages.entering import House, Person
from tests.harness.http import PLAIN
from tests.harness.waiting import wait_until

SOCKET = "/admin/_nicegui_ws/socket.io/?EIO=4&transport="
FOREIGN = "https://evil.example"


class Guarded:
    """A closed bus, its admin, and a viewer."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.bus = house.bus
        self.root = house.root
        self.vera = house.person("door.vera", "viewer")

    def socket(self, origin: str | None, cookie: str | None, query: str = "") -> ClientConnection:
        """Open a socket as a browser would, from a page of that origin."""
        url = self.bus.url.replace("http://", "ws://") + SOCKET + f"websocket&{query}"
        headers = {"Cookie": cookie} if cookie else {}
        return connect(
            url, origin=Origin(origin) if origin else None, additional_headers=headers, open_timeout=20, proxy=None
        )


@pytest.fixture(scope="module")
def guarded(house: House) -> Guarded:
    return Guarded(house)


@pytest.fixture
def stranger(guarded: Guarded) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=guarded.bus.url, timeout=30, **PLAIN) as client:
        yield client


def page_of(cookie: str, client: httpx.Client, path: str = "/account") -> str:
    """Open a page; return the id by which its socket names it."""
    answer = client.get(f"/admin{path}", headers={"cookie": cookie})
    return re.findall(r"""["']client_id["']: ["']([^"']+)""", answer.text)[0]


def joined(socket: ClientConnection) -> str:
    """Join as the pages' script does; return the answer."""
    assert str(socket.recv(timeout=20)).startswith("0{")
    socket.send("40")
    return str(socket.recv(timeout=20))


def handshaken(socket: ClientConnection, handshake: dict[str, str]) -> str:
    """Ask for a page over an open socket; return the answer."""
    socket.send(f"421{json.dumps(['handshake', handshake])}")
    return str(socket.recv(timeout=20))


def say(socket: ClientConnection, client_id: str, text: str) -> None:
    """Have a text in the log, as a page that warns."""
    socket.send("42" + json.dumps(["log", {"client_id": client_id, "level": "warning", "message": text}]))


def test_a_socket_is_for_a_page_of_ours_and_for_who_is_logged_in(guarded: Guarded) -> None:
    cookie, home = guarded.vera.cookie, guarded.bus.url
    for origin, shown in ((FOREIGN, cookie), (None, cookie), ("null", cookie), (home, None), (home, "bus_session=x")):
        with pytest.raises(InvalidStatus) as refused:
            guarded.socket(origin, shown)
        assert refused.value.response.status_code == 403
    with guarded.socket(home, cookie) as socket:
        assert str(socket.recv(timeout=20)).startswith("0{")


def test_a_socket_is_closed_when_its_user_is_blocked(guarded: Guarded) -> None:
    with guarded.socket(guarded.bus.url, guarded.vera.cookie) as socket:
        assert str(socket.recv(timeout=20)).startswith("0{")
        guarded.root.call("PATCH", "/users/door.vera", json={"blocked": True})
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
    with pytest.raises(InvalidStatus):
        guarded.socket(guarded.bus.url, guarded.vera.cookie)


def test_nobody_gets_at_a_page_of_somebody_else(guarded: Guarded, stranger: httpx.Client) -> None:
    """The id of a page stands in the address of its socket, so that a proxy's log may have it."""
    url, root = guarded.bus.url, guarded.root.cookie
    handshake = {"client_id": page_of(root, stranger), "tab_id": "t", "document_id": "d", "next_message_id": "0"}
    implicit = urlencode({**handshake, "implicit_handshake": "true"})
    with Person(url, "vic", guarded.house.invite("vic", "viewer")) as vic:
        with guarded.socket(url, vic.cookie, implicit) as socket:
            assert "Implicit handshake failed" in joined(socket)
        with guarded.socket(url, vic.cookie) as socket:
            assert joined(socket).startswith("40{")
            assert handshaken(socket, handshake) == "431[false]"
        with guarded.socket(url, root, implicit) as own, guarded.socket(url, vic.cookie) as other:
            assert joined(own).startswith("40{")
            assert joined(other).startswith("40{")
            say(other, handshake["client_id"], "vic was here")
            assert handshaken(other, handshake) == "431[false]"
            say(own, handshake["client_id"], "root was here")
            wait_until(lambda: "root was here" in guarded.bus.child.output(), within=10, what="root is heard")
    assert "vic was here" not in guarded.bus.child.output()


def test_polling_instead_of_a_socket_is_refused_just_so(guarded: Guarded, stranger: httpx.Client) -> None:
    cookie, home = guarded.root.cookie, guarded.bus.url
    for origin, shown, status in ((home, "", 401), (FOREIGN, cookie, 403), ("", cookie, 403), (home, cookie, 200)):
        headers = {"origin": origin, "cookie": shown}
        given = {name: value for name, value in headers.items() if value}
        assert stranger.get(f"{SOCKET}polling", headers=given).status_code == status
    crossing = {"origin": home, "cookie": cookie, "sec-fetch-site": "cross-site"}
    assert stranger.post(f"{SOCKET}polling", headers=crossing).status_code == 403


def test_strangers_have_no_page_made_for_them(guarded: Guarded, stranger: httpx.Client) -> None:
    for path in ("0/static/x", "0/esm/x", "0/resources/x", "0/libraries/x", "0/components/x"):
        answer = stranger.get(f"/admin/_nicegui/{path}")
        assert (answer.status_code, answer.text) == (404, "there is no such file")
    known = stranger.get("/admin/nowhere", headers={"cookie": guarded.root.cookie})
    assert (known.status_code, known.headers["content-type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize("path", ["/account", "/nowhere"])
def test_pages_that_no_browser_opens_are_few(guarded: Guarded, stranger: httpx.Client, path: str) -> None:
    cookie, home = guarded.root.cookie, guarded.bus.url

    def handshake(client_id: str) -> dict[str, str]:
        return {"client_id": client_id, "tab_id": client_id, "document_id": "d", "next_message_id": "0"}

    opened = page_of(cookie, stranger)
    with guarded.socket(home, cookie) as socket:
        assert joined(socket).startswith("40{")
        assert handshaken(socket, handshake(opened)) == "431[true]"
        forgotten = page_of(cookie, stranger)
        for _ in range(20):
            last = page_of(cookie, stranger, path)
        answers = {}
        for client_id in (forgotten, last, opened):
            with guarded.socket(home, cookie) as another:
                assert joined(another).startswith("40{")
                answers[client_id] = handshaken(another, handshake(client_id))
    assert answers == {forgotten: "431[false]", last: "431[true]", opened: "431[true]"}


@pytest.mark.parametrize("path", ["/", "/audit", "/access", "/account", "/login", "/destinations"])
def test_no_page_can_be_framed(guarded: Guarded, stranger: httpx.Client, path: str) -> None:
    answer = stranger.get(f"/admin{path}", headers={"cookie": guarded.root.cookie})
    assert answer.status_code == 200
    assert answer.headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"


def test_another_site_changes_nothing_with_a_borrowed_cookie(guarded: Guarded, stranger: httpx.Client) -> None:
    home, csrf = guarded.bus.url, guarded.root.http.headers["x-csrf-token"]
    body = {"current_password": "x", "password": "correct horse battery staple"}
    for headers in (
        {"origin": home},
        {"origin": home, "x-csrf-token": "0" * len(csrf)},
        {"origin": FOREIGN, "x-csrf-token": csrf},
        {"origin": home, "sec-fetch-site": "same-site", "x-csrf-token": csrf},
    ):
        given = {**headers, "cookie": guarded.root.cookie}
        assert stranger.put("/api/v1/session/password", json=body, headers=given).status_code == 403
        assert stranger.delete("/api/v1/users/door.vera", headers=given).status_code == 403
    assert stranger.post("/admin/", headers={"origin": FOREIGN, "cookie": guarded.root.cookie}).status_code == 403
    assert "door.vera" in {user["name"] for user in guarded.root.call("GET", "/users").json()["items"]}
