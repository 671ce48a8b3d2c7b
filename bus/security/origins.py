"""A check that a browser's request comes from one of our pages."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from bus.errors import AccessDenied
from bus.localized_text import localized
from bus.security.principals import Principal


def is_ours(fetch_site: str | None, origin: str | None, host: str | None) -> bool:
    """Return whether ``Sec-Fetch-Site``, or else ``Origin`` compared with ``Host``, names this very origin.

    A page cannot set any of the three. Without the first two nothing is known, and the answer is False.
    """
    if fetch_site is not None:
        return fetch_site == "same-origin"
    if origin is None or not host:
        return False
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def refuse_foreign_page(principal: Principal, headers: Mapping[bytes, bytes]) -> None:
    """Refuse what a browser sends for another site's page while no key is needed.

    Such a page may call loopback by its own name, so that Host tells nothing. A request without ``Sec-Fetch-Site`` and
    ``Origin`` is a program's, and ``none`` is what a person opens in the browser.

    Raises
    ------
    AccessDenied
        403.
    """
    if principal.kind != "open":
        return
    site, origin = headers.get(b"sec-fetch-site"), headers.get(b"origin")
    if site == b"none" or (site is None and origin is None):
        return
    named = [one.decode("latin-1") if one is not None else None for one in (site, origin, headers.get(b"host"))]
    if not is_ours(*named):
        raise AccessDenied(localized("a page of another site may not do this"), hint="bus key create")


def is_secure(scheme: str, origin: str | None) -> bool:
    """Return whether a browser is at the other end of TLS, also where a proxy in front of the bus ends it."""
    return scheme == "https" or (origin or "").startswith("https://")
