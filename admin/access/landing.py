"""What a browser is shown that comes back from a provider: a way on, or why there is none."""

from __future__ import annotations

from html import escape
from typing import Final

from fastapi.responses import HTMLResponse

from bus.http.problem import Problem

# Without the sandbox of other answers, in which a page cannot go on by itself.
_HEADERS: Final = {"content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'"}


def go_on(place: str) -> HTMLResponse:
    """Return a page that goes on to a place of this bus.

    A redirect would still be part of the way from the provider, and a ``SameSite=Strict`` cookie is not sent on that;
    from a page of ours it is.
    """
    to = escape(place)
    return _page(
        f'<meta http-equiv="refresh" content="0;url={to}"><title>Logged in</title>', f'<a href="{to}">Continue</a>', 200
    )


def told(problem: Problem) -> HTMLResponse:
    """Return a page that says what happened and what to do."""
    lines = "".join(f"<p>{escape(line)}</p>" for line in (problem.detail, problem.hint) if line)
    return _page(f"<title>{escape(problem.title)}</title>", f"<h1>{escape(problem.title)}</h1>{lines}", problem.status)


def _page(head: str, body: str, status: int) -> HTMLResponse:
    content = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{head}</head><body>{body}</body></html>'
    return HTMLResponse(content, status, headers=_HEADERS)
