"""A person at the pages: a browser of their own, and what a good page has none of."""

from __future__ import annotations

from typing import Any, Self

from playwright.sync_api import BrowserContext, Error, Page, Request, expect

from tests.servers import need

WITHIN = 30_000.0
ZONE = "Asia/Shanghai"
SERIOUS = ("serious", "critical")


class Looker:
    """One browser at one bus, and at another after it has left.

    It keeps its renderer and the files of the pages, so that who uses it next loads a page in half the time.

    Attributes
    ----------
    troubles
        What scripts of pages complained of, and what the policy kept a page from.
    went
        Where it went, and how each way ended.
    """

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.context = context
        self.troubles: list[str] = []
        self.went: list[str] = []
        context.set_default_timeout(WITHIN)
        expect.set_options(timeout=WITHIN)
        self.page = self._new()
        self.visit(url)

    def visit(self, url: str) -> Self:
        """Be at a bus as a browser that was there before; the first visit is a test of its own."""
        self.url = url
        self.context.add_cookies([{"name": "bus_zone", "value": ZONE, "url": url}])
        return self

    def leave(self, rest: str) -> bool:
        """Forget who was here, at a place of the same host that runs no script; tell whether another may come."""
        if self.context.pages != [self.page]:
            return False
        try:
            self._forget()
            self.page.goto(rest)
        except Error:  # the bus is gone and with it the page, or the page is on its way elsewhere
            return False
        self.context.clear_cookies()
        self.context.clear_permissions()
        self.troubles.clear()
        self.went.clear()
        return True

    def open(self, path: str = "/") -> Page:
        """Open a page, and wait until it is alive: its socket is there."""
        self.page.goto(f"{self.url}/admin{path}")
        self.page.wait_for_function("window.did_handshake === true")
        return self.page

    def log_in(self, name: str, password: str, path: str = "/") -> Page:
        """Log in by the form on the way to a page."""
        self.page.goto(f"{self.url}/admin{path}")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password", exact=True).fill(password)
        self.page.get_by_role("button", name="Log in").click()
        # The login page's policy lets nobody evaluate a text in it.
        self.page.wait_for_url(lambda url: "/admin/login" not in url)
        self.page.wait_for_function("window.did_handshake === true")
        return self.page

    def findings(self) -> list[str]:
        """Return what axe-core holds against the page's accessibility, the serious things."""
        source = need("axe").read_text("utf-8")
        self.page.evaluate(f"(() => {{ {source} }})()")
        found: list[dict[str, Any]] = self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations'], preload: false}).then(found => found.violations)"
        )
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
            for one in found
            if one["impact"] in SERIOUS
        ]

    def is_too_wide(self) -> bool:
        """Whether the page has to be scrolled sideways."""
        wide: bool = self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth + 1")
        return wide

    def story(self) -> str:
        """Return where it went, what scripts complained of, and what the page shows: for whoever reads of a failure."""
        try:
            shown = self.page.locator("body").aria_snapshot()
        except Error as error:
            shown = f"nothing that can be read: {error}"
        return "\n".join([*self.went, *self.troubles, f"at {self.page.url}:", shown])

    def begin_anew(self) -> Self:
        """Go on in a new tab."""
        self.page = self._new()
        return self

    def _forget(self) -> None:
        session = self.context.new_cdp_session(self.page)
        for local in (True, False):
            session.send("DOMStorage.clear", {"storageId": {"securityOrigin": self.url, "isLocalStorage": local}})
        session.detach()

    def _new(self) -> Page:
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.troubles.append(f"{page.url}: {error}"))
        page.on("console", lambda said: self._hear(page, said.type, said.text))
        page.on("requestfinished", lambda request: self._follow(request, "answered"))
        page.on("requestfailed", lambda request: self._follow(request, request.failure or "failed"))
        return page

    def _follow(self, request: Request, end: str) -> None:
        if request.is_navigation_request():
            self.went.append(f"{request.method} {request.url}: {end}")

    def _hear(self, page: Page, kind: str, text: str) -> None:
        if kind == "error" and "the server responded with a status of" not in text:
            self.troubles.append(f"{page.url}: {text}")
