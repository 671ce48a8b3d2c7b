"""A program with the Go client of Youzan's fork of NSQ, against which the double of its servers is tried."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tests.servers.cache import ROOT, cache_dir, install_once, run

VERSION = "1.7.2-HA"
PROGRAM = "youzan-oracle"
SOURCE = ROOT / "tests" / "doubles" / "youzan" / "oracle"


def find() -> Path | None:
    """Return the folder of the program, None when it is not installed."""
    folder = cache_dir() / _folder()
    return folder if folder.is_dir() else None


def install() -> Path:
    """Build the program unless it is there; return its folder."""
    return install_once(_folder(), _build, about="a Go build of some seconds")


def _folder() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        digest.update(path.read_bytes())
    return f"{PROGRAM}-{VERSION}-{digest.hexdigest()[:8]}"


def _build(work: Path) -> None:
    source = work / "source"
    shutil.copytree(SOURCE, source)
    run(["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", f"{work}/", "."], cwd=source)
    (work / "oracle").rename(work / PROGRAM)
    shutil.rmtree(source)
