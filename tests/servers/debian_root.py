"""Debian 12 as a folder to change the root into: what the image ``debian:bookworm-slim`` is, where no engine runs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.servers.cache import cache_dir, install_once, run, say, unpack_packages

RELEASE = "bookworm"
FOLDER = f"debian-{RELEASE}"
ROOT = "root"


def find() -> Path | None:
    """Return the folder, None when it is not installed."""
    folder = cache_dir() / FOLDER / ROOT
    return folder if folder.is_dir() else None


def install() -> Path:
    """Make the folder unless it is there and return it; only root can, others are told and go without."""
    if os.geteuid() != 0:
        say(f"{FOLDER} is not installed: only root can make it, and only root's tests use it")
        return cache_dir() / FOLDER / ROOT
    return install_once(FOLDER, _build, about="some 70 packages") / ROOT


def _build(work: Path) -> None:
    tools = work / "tools"
    unpack_packages(tools, "debootstrap")
    env = {"DEBOOTSTRAP_DIR": str(tools / "usr/share/debootstrap")}
    made = work / ROOT
    run(["sh", str(tools / "usr/sbin/debootstrap"), "--variant=minbase", RELEASE, str(made)], env=env)
    shutil.rmtree(tools)
    shutil.rmtree(made / "var/cache/apt/archives", ignore_errors=True)
