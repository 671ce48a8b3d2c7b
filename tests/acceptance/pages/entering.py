"""Buses that are closed, and the people of them."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import httpx

from tests.acceptance.pages.looking import Looker
from tests.harness.bus_process import BusProcess, run_bus
from tests.harness.http import PLAIN


def add_user(data: Path, name: str, role: str) -> str:
    """Make a user before a bus starts; return the password."""
    made = run_bus("user", "add", name, "--role", role, "--data", data, "--json")
    password: str = json.loads(made.stdout)["password"]
    return password


class Person:
    """Somebody logged in without a browser."""

    def __init__(self, url: str, name: str, password: str) -> None:
        self.http = httpx.Client(base_url=f"{url}/api/v1", headers={"origin": url}, timeout=30, **PLAIN)
        begun = self.http.post("/session", json={"name": name, "password": password}).raise_for_status()
        self.http.headers["x-csrf-token"] = begun.json()["csrf"]

    def enter(self, looker: Looker) -> None:
        """Give a browser this person's session."""
        cookies = [{"name": name, "value": value, "url": looker.url} for name, value in self.http.cookies.items()]
        looker.context.add_cookies(cookies)  # type: ignore[arg-type]

    @property
    def cookie(self) -> str:
        """The cookies as a browser sends them."""
        return "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())

    def call(self, verb: str, path: str, **options: object) -> httpx.Response:
        """Call the admin API, and raise when it refuses."""
        return self.http.request(verb, path, **options).raise_for_status()  # type: ignore[arg-type]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()


class House:
    """A closed bus that tests share, and its admin: each names its people and destinations after itself."""

    def __init__(self, bus: BusProcess, password: str) -> None:
        self.bus = bus
        self._people = ExitStack()
        self.root = self._people.enter_context(Person(bus.url, "root", password))
        bus.admin.authorize(self.root.call("POST", "/keys", json={"role": "admin"}).json()["key"])

    def invite(self, name: str, role: str, *destinations: str) -> str:
        """Make a user; return the password."""
        wanted = {"name": name, "role": role, "destinations": destinations}
        password: str = self.root.call("POST", "/users", json=wanted).json()["password"]
        return password

    def person(self, name: str, role: str, *destinations: str) -> Person:
        """Make a user who is logged in."""
        return self._people.enter_context(Person(self.bus.url, name, self.invite(name, role, *destinations)))

    def reset(self, name: str) -> str:
        """Give a user another password; all their sessions end."""
        password: str = self.root.call("POST", f"/users/{name}/reset-password").json()["password"]
        return password

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._people.close()
