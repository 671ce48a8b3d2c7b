"""Pages for a browser that returns from a login at a provider: a redirect to the bus, or the error."""

from __future__ import annotations

from html import escape
from typing import Final

from fastapi.responses import HTMLResponse

from bus.http.problem import Problem

# Other answers have ``sandbox`` in this policy, with which a page cannot refresh to another one.
_HEADERS: Final = {"content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"}


def go_on(place: str) -> HTMLResponse:
    """Return a page that refreshes to a path of this bus.

    A redirect would still count as a navigation from the provider's site, for which a browser does not send a
    ``SameSite=Strict`` cookie; for one from a page of this bus it does.
    """
    to = escape(place)
    return _page(
        f'<meta http-equiv="refresh" content="0;url={to}"><title>Logged in</title>', f'<a href="{to}">Continue</a>', 200
    )


def told(problem: Problem) -> HTMLResponse:
    """Return a page with an error and what to do about it."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in (problem.detail, problem.hint) if line)
    return _page(f"<title>{escape(problem.title)}</title>", f"<h1>{escape(problem.title)}</h1>{lines}", problem.status)


def _page(head: str, body: str, status: int) -> HTMLResponse:
    content = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{head}</head><body>{body}</body></html>'
    return HTMLResponse(content, status, headers=_HEADERS)
