"""Stock NSQ 1.3.0, built from the Go module proxy."""

from __future__ import annotations

import json
from pathlib import Path

from tests.servers.cache import cache_dir, install_once, run

VERSION = "1.3.0"
FOLDER = f"nsq-{VERSION}"
PROGRAMS = ("nsqd", "nsqlookupd", "nsqadmin", "nsq_to_http")


def find() -> Path | None:
    """Return the folder of the programs, None when they are not installed."""
    folder = cache_dir() / FOLDER
    return folder if folder.is_dir() else None


def install() -> Path:
    """Build the programs unless they are there; return their folder."""
    return install_once(FOLDER, _build, about="a Go build of about a minute")


def _build(work: Path) -> None:
    # `go install PACKAGE@VERSION` ignores the module's own `replace`, so build inside the module's folder.
    module = json.loads(run(["go", "mod", "download", "-json", f"github.com/nsqio/nsq@v{VERSION}"], cwd=work))
    packages = [f"./apps/{program}" for program in PROGRAMS]
    run(["go", "build", "-buildvcs=false", "-trimpath", "-o", f"{work}/", *packages], cwd=Path(module["Dir"]))
