"""Whether a browser sends a request for a page of ours."""

from __future__ import annotations

from urllib.parse import urlsplit


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


def is_secure(scheme: str, origin: str | None) -> bool:
    """Return whether a browser is at the other end of TLS, also where a proxy in front of the bus ends it."""
    return scheme == "https" or (origin or "").startswith("https://")
