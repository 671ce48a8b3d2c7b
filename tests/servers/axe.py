"""axe-core, the accessibility checks that run inside a page: the npm package of that name (MPL)."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.servers.cache import InstallFailed, cache_dir, install_once, run

VERSION = "4.10.3"
FOLDER = f"axe-core-{VERSION}"
SCRIPT = "axe.min.js"


def find() -> Path | None:
    """Return the script, None when it is not installed."""
    script = cache_dir() / FOLDER / SCRIPT
    return script if script.is_file() else None


def install() -> Path:
    """Fetch the package unless it is there; return the script."""
    return install_once(FOLDER, _fetch, about="checks of accessibility") / SCRIPT


def _fetch(work: Path) -> None:
    run(["npm", "pack", "--ignore-scripts", f"axe-core@{VERSION}"], cwd=work)
    (archive,) = work.glob("*.tgz")
    with tarfile.open(archive) as package:
        member = package.extractfile(f"package/{SCRIPT}")
        if member is None:
            raise InstallFailed(f"{archive.name} has no {SCRIPT}")
        with member:
            (work / SCRIPT).write_bytes(member.read())
    archive.unlink()
