"""Debian's Chromium, which Playwright drives, and a font that has Chinese."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.servers.cache import InstallFailed, apt_get

PACKAGES = ("chromium-headless-shell", "fonts-wqy-microhei")
# The first is the engine without a browser's windows around it: the tests take half the time.
_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def find() -> Path | None:
    """Return the browser: the one that ``BUS_TEST_CHROMIUM`` names, or one on the PATH."""
    named = os.environ.get("BUS_TEST_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, _NAMES)), None)
    return Path(found) if found else None


def install() -> Path:
    """Install the packages unless a browser is there; needs root, since a browser stands on many libraries."""
    found = find()
    if found is not None:
        return found
    if os.geteuid() != 0:
        raise InstallFailed(f"as root: apt-get install {' '.join(PACKAGES)}")
    apt_get("install", "--yes", "--quiet", "--no-install-recommends", *PACKAGES)
    found = find()
    if found is None:
        raise InstallFailed("apt-get installed Chromium, and it is not on the PATH")
    return found
