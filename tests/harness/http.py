"""HTTP to servers of this machine."""

from __future__ import annotations

from typing import Any, Final

PLAIN: Final[dict[str, Any]] = {"trust_env": False, "verify": False}
"""For every client of httpx: without it each reads the certificates of all authorities, 33 ms of a processor."""
