"""The static files of the pages besides NiceGUI's: style sheet, scripts, and the pages to log in and to wait at."""

from __future__ import annotations

import html
from functools import cache
from importlib import resources
from string import Template
from typing import Final

from fastapi import Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from admin.pages.viewer import THEME, language_of
from admin.pages.words import LANGUAGES, words_of
from admin.services import AdminServices
from bus.bootstrap import VERSION
from bus.localized_text import N_

PREFIX: Final = "/admin/assets/"
LOGIN: Final = "/admin/login"
WORKER: Final = "away.js"
_AWAY: Final = "away.html"
_PAGES: Final = "/admin/"
_TYPES: Final = {"css": "text/css", "js": "text/javascript"}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": _POLICY,
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def url_of(name: str) -> str:
    """Return the URL of a file; its version keeps a browser from using an older one."""
    return f"{PREFIX}{VERSION}/{name}"


class Assets:
    """Serves files and the login page without a login."""

    def __init__(self, services: AdminServices) -> None:
        self._services = services

    def has(self, scope: Scope) -> bool:
        """Whether a request is for a file or the login page."""
        path: str = scope["path"]
        return scope["type"] == "http" and (path == LOGIN or path.startswith(PREFIX))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope)
        if request.method not in ("GET", "HEAD"):
            answer = Response("only GET", 405, headers=HEADERS)
        elif request.url.path == LOGIN:
            answer = self._login(request)
        elif (name := request.url.path.rpartition("/")[2]) == _AWAY:
            answer = _away(request)
        else:
            answer = _file(name)
        await answer(scope, receive, send)

    def _login(self, request: Request) -> Response:
        language = language_of(request)
        t = words_of(language)
        page = Template(text_of("login.html")).substitute(
            language=language,
            style=url_of("pier.css"),
            script=url_of("login.js"),
            languages=_choices(language),
            theme=_theme(request),
            **{name: html.escape(t(text)) for name, text in _LOGIN_TEXTS.items()},
        )
        return Response(page, media_type="text/html", headers={**HEADERS, "cache-control": "no-store"})


def _away(request: Request) -> Response:
    """Return the page that a browser keeps for when no process answers."""
    asked = request.query_params.get("language", "")
    language = asked if asked in LANGUAGES else "en"
    t = words_of(language)
    page = Template(text_of(_AWAY)).substitute(
        language=language,
        style=url_of("pier.css"),
        script=url_of("waiting.js"),
        theme=_theme(request),
        **{name: html.escape(t(text)) for name, text in _AWAY_TEXTS.items()},
    )
    return Response(page, media_type="text/html", headers={**HEADERS, "cache-control": "no-store"})


def _theme(request: Request) -> str:
    theme = request.cookies.get(THEME, "")
    return theme if theme in ("light", "dark") else ""


_AWAY_TEXTS: Final = {
    "title": N_("The bus does not answer"),
    "part": N_("A part of the bus is away"),
    "kept": N_("Nothing that it acknowledged is lost: messages wait on disk, and producers keep what they send."),
    "waiting": N_("This page comes by itself once it answers again."),
    "look": N_("See whether its processes run: bus status, or the log of the service."),
}
_LOGIN_TEXTS: Final = {
    "title": N_("Log in to Pier"),
    "name": N_("Name"),
    "password": N_("Password"),
    "enter": N_("Log in"),
    "help": N_("Users are made with “bus user add NAME”. Nothing that was sent is affected while nobody is logged in."),
    "no_script": N_("These pages need JavaScript; the API and the bus command do without."),
    "wait": N_("try again in {seconds} s"),
    "ended": N_("Your session has ended. Log in again and you are back where you were."),
    "other": N_("Language"),
    "away": N_("The bus does not answer. Nothing that it acknowledged is lost; try again in a moment."),
}


def _choices(chosen: str) -> str:
    return "".join(
        f'<option value="{code}"{" selected" if code == chosen else ""}>{name}</option>'
        for code, name in LANGUAGES.items()
    )


def _file(name: str) -> Response:
    kind = _TYPES.get(name.rpartition(".")[2])
    folder = resources.files(__name__)
    if kind is None or not (folder / name).is_file():
        return Response("there is no such file", 404, headers=HEADERS)
    headers = {**HEADERS, "cache-control": "public, max-age=31536000, immutable"}
    if name == WORKER:
        headers |= {"service-worker-allowed": _PAGES}
    return Response(text_of(name), media_type=kind, headers=headers)


@cache
def text_of(name: str) -> str:
    """Return a file's content."""
    return (resources.files(__name__) / name).read_text("utf-8")
