"""The frame of every page: navigation, search box, the viewer's menu, keyboard shortcuts."""

from __future__ import annotations

import asyncio
import copy
import html
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from fastapi import Request, Response
from nicegui import ui

from admin.pages.api_error import ApiError
from admin.pages.assets import WORKER, url_of
from admin.pages.parts.notes import refusal, tell
from admin.pages.parts.tags import link, tag
from admin.pages.unopened import await_socket
from admin.pages.viewer import LANGUAGE, THEME, Viewer
from admin.pages.words import LANGUAGES
from bus.localized_text import N_
from bus.security.keys import Action

Build = Callable[[Viewer], Awaitable[Response | None]]
_BUILT_WITHIN: Final = 20.0
_PAGES: Final[list[tuple[str, Callable[..., Awaitable[Response | None]]]]] = []


class Place(NamedTuple):
    """An entry of the navigation; ``key`` after ``g`` opens it."""

    path: str
    text: str
    icon: str
    key: str
    action: str = Action.READ


PLACES: Final = (
    Place("/", N_("Overview"), "dashboard", "o"),
    Place("/alarms", N_("Alarms"), "notifications_none", "l"),
    Place("/find", N_("Find"), "search", "f"),
    Place("/failures", N_("Failures"), "error_outline", "e"),
    Place("/resends", N_("Resends"), "replay", "r"),
    Place("/destinations", N_("Destinations"), "hub", "d"),
    Place("/producers", N_("Producers"), "outbox", "p"),
    Place("/health", N_("Health"), "favorite_border", "h"),
    Place("/pipeline", N_("Pipeline"), "fact_check", "i"),
    Place("/audit", N_("Audit log"), "history", "a", Action.CONFIGURE),
    Place("/access", N_("Access"), "lock_outline", "u", Action.CONFIGURE),
)
_ACTIONS: Final = (
    (N_("Make a destination"), "/admin/new-destination", Action.CONFIGURE),
    (N_("Resend in bulk"), "/admin/resends/new", Action.RESEND),
    (N_("Make a key"), "/admin/access", Action.CONFIGURE),
    (N_("Try the API"), "/docs", Action.READ),
)
_KINDS: Final = {
    "page": N_("page"),
    "destination": N_("destination"),
    "subscription": N_("subscription"),
    "action": N_("action"),
    "find": N_("search"),
}
_LOST: Final = N_("The bus does not answer: what you see is of before. It goes on by itself.")
_SHORTCUTS: Final = (
    ("Ctrl K", N_("Go anywhere")),
    ("/", N_("Find a message")),
    ("j / k", N_("Next and previous row")),
    (
        "g o · g l · g f · g e · g r · g d · g p · g h · g i",
        N_("Overview, Alarms, Find, Failures, Resends, Destinations, Producers, Health, Pipeline"),
    ),
    ("?", N_("This list")),
)


def page(path: str, title: str) -> Callable[[Build], Build]:
    """Register a page; ``title`` is English, and shown in the viewer's language.

    What the API refuses while the page is built, or later, is shown in the page. When the function returns a response,
    such as a redirect, that is sent in place of the page.
    """

    def register(build: Build) -> Build:
        async def show(request: Request) -> Response | None:
            viewer: Viewer = request.scope["viewer"]
            await_socket(ui.context.client)
            viewer.place = dict(request.path_params)
            _adopt(viewer)
            ui.page_title(f"{viewer.t(title)} · Pier")
            ui.on_exception(lambda error: _tell(viewer, error))
            with _frame(viewer, path):
                await _others_go_on()
                try:
                    return await build(viewer)
                except ApiError as error:
                    refusal(viewer, error)
                finally:
                    await _others_go_on()
            return None

        _PAGES.append((path, show))
        return build

    return register


def serve_pages() -> None:
    """Register the pages with NiceGUI; paths with parameters come last, so that they hide no path without."""
    for path, show in sorted(_PAGES, key=lambda entry: (entry[0].count("{"), entry[0])):
        ui.page(path, response_timeout=_BUILT_WITHIN)(show)


def _adopt(viewer: Viewer) -> None:
    """Have the HTML document itself in the viewer's language and theme, so that neither changes after it is shown."""
    client = ui.context.client
    client.page = copy.copy(client.page)
    client.page.language = "zh-CN" if viewer.language == "zh" else "en-US"
    client.page.dark = viewer.dark


async def _others_go_on() -> None:
    """Let the event loop turn: a page's frame, content and answer take milliseconds each."""
    await asyncio.sleep(0)


def heading(text: str) -> ui.element:
    """Return the element with the page's title, to add to; the text is shown untranslated."""
    line = tag("div", "pier-head")
    with line:
        tag("h1", "pier-bidi", text)
    return line


@contextmanager
def _frame(viewer: Viewer, path: str) -> Iterator[None]:
    worker = f"{url_of(WORKER)}?language={viewer.language}"
    copy_said = html.escape(viewer.t("Copy"))
    ui.add_head_html(
        f'<link rel="stylesheet" href="{url_of("pier.css")}">'
        f'<script src="{url_of("pier.js")}" data-worker="{worker}" data-copy="{copy_said}"></script>'
    )
    tag("div", "pier-lost-bar", viewer.t(_LOST), role="status")
    tag("a", "pier-skip", viewer.t("Skip to the content"), href="#pier-content")
    with tag("div", "pier-shell"):
        _side(viewer, path)
        with tag("div", "pier-main"):
            _top(viewer)
            with tag("main", "pier-page", id="pier-content", tabindex="-1"):
                yield
    _palette(viewer)
    _help(viewer)


def _side(viewer: Viewer, path: str) -> None:
    with tag("aside", "pier-side"):
        with link("", "/admin/", "pier-brand"):
            tag("span", "pier-mark", aria_hidden="true")
            tag("span", "", "Pier")
        with tag("nav", "", aria_label=viewer.t("Pages"), data_pier_nav=""):
            for place in PLACES:
                if viewer.may(place.action):
                    _entry(viewer, place, is_here=_is_below(path, place.path))


def _entry(viewer: Viewer, place: Place, *, is_here: bool) -> None:
    current = "page" if is_here else None
    with link("", f"/admin{place.path}", "", aria_current=current, data_key=place.key):
        ui.icon(place.icon).props["aria-hidden"] = "true"
        tag("span", "", viewer.t(place.text))


def _is_below(path: str, place: str) -> bool:
    return (
        path == place
        or (place != "/" and path.startswith(f"{place}/"))
        or (place == "/find" and path.startswith("/messages"))
    )


def _top(viewer: Viewer) -> None:
    t = viewer.t
    with tag("header", "pier-top"):
        with tag("form", "", action="/admin/find", method="get", role="search"):
            tag("label", "pier-hidden", t("Find a message by any id"), for_="pier-find")
            tag(
                "input",
                "",
                id="pier-find",
                name="ref",
                type="search",
                autocomplete="off",
                spellcheck="false",
                placeholder=t("Any id: message, trace, biz id, key  ( / )"),
            )
        tag("span", "pier-spacer")
        ui.button(icon="keyboard_command_key", on_click=lambda: ui.run_javascript("pier.palette()")).props(
            "flat dense round"
        ).props["aria-label"] = t("Go anywhere (Ctrl K)")
        _preferences(viewer)
        _person(viewer)


def _preferences(viewer: Viewer) -> None:
    t = viewer.t
    with ui.button(icon="tune").props("flat dense round") as button:
        button.props["aria-label"] = t("Language and theme")
        with ui.menu():
            for code, name in LANGUAGES.items():
                ui.menu_item(name, on_click=lambda code=code: _choose(LANGUAGE, code))
            ui.separator()
            for theme, name in (("light", t("Light")), ("dark", t("Dark")), ("auto", t("As the system"))):
                ui.menu_item(name, on_click=lambda theme=theme: _choose(THEME, theme))


def _choose(name: str, value: str) -> None:
    ui.run_javascript(f"pier.choose({name!r}, {value!r})")


def _person(viewer: Viewer) -> None:
    t, principal = viewer.t, viewer.principal
    if viewer.is_open:
        tag(
            "span",
            "pier-chip pier-warn",
            t("open: no key yet"),
            title=t("Whoever reaches this machine's loopback may do everything."),
        )
        return
    with ui.button(icon="person_outline").props("flat dense") as button:
        button.props["aria-label"] = t("{name}: account", name=principal.name)
        with ui.menu():
            with ui.item():
                tag("span", "pier-quiet", f"{principal.name} · {', '.join(principal.roles)}")
            if principal.kind == "user":
                ui.menu_item(t("Account"), on_click=lambda: ui.navigate.to("/account"))
                ui.menu_item(t("Log out"), on_click=lambda: ui.run_javascript(f"pier.logOut({viewer.api.csrf!r})"))


def _palette(viewer: Viewer) -> None:
    t = viewer.t
    said = t("A page, a destination, a subscription, an action, or any id")
    with tag(
        "dialog",
        "pier-dialog",
        id="pier-palette",
        aria_label=t("Go anywhere"),
        data_find=t("Find “{text}”"),
        data_actions=json.dumps([{"text": t(text), "href": href} for text, href, may in _ACTIONS if viewer.may(may)]),
        data_kinds=json.dumps({name: t(text) for name, text in _KINDS.items()}),
    ):
        tag(
            "input",
            "",
            type="text",
            role="combobox",
            aria_label=said,
            aria_expanded="true",
            aria_controls="pier-choices",
            placeholder=said,
            autocomplete="off",
        )
        tag("ul", id="pier-choices", role="listbox", aria_label=said)


def _help(viewer: Viewer) -> None:
    t = viewer.t
    with tag("dialog", "pier-dialog", id="pier-help", aria_label=t("Keyboard")):
        tag("h2", "", t("Keyboard"))
        with tag("dl", "pier-pairs q-mt-sm"):
            for keys, does in _SHORTCUTS:
                with tag("dt"):
                    tag("kbd", "", keys)
                tag("dd", "", t(does))
        with tag("form", "q-mt-md", method="dialog"):
            tag("button", "", t("Close"), type="submit")


def _tell(viewer: Viewer, error: Exception) -> None:
    """Show in the page that an action of it failed, and why."""
    if isinstance(error, ApiError) and error.status == 401:  # noqa: PLR2004 - the session has ended
        ui.run_javascript("pier.leave()")
    elif isinstance(error, ApiError):
        tell(viewer, error)
    else:
        ui.notify(viewer.t("This page failed; nothing that the bus acknowledged is lost. Reload it."), type="negative")
