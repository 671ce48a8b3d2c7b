"""Real input: the GitHub webhook payloads of the npm package ``@octokit/webhooks-examples`` (MIT)."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import NamedTuple

from tests.servers.cache import InstallFailed, cache_dir, install_once, run

VERSION = "7.6.1"
FOLDER = f"webhooks-examples-{VERSION}"
INDEX = "index.json"


class Payload(NamedTuple):
    """One webhook: the name of its event, and its body as canonical JSON (sorted keys, no spaces, UTF-8)."""

    event: str
    body: bytes


def find() -> Path | None:
    """Return the folder with the payloads, None when they are not installed."""
    folder = cache_dir() / FOLDER
    return folder if folder.is_dir() else None


def install() -> Path:
    """Fetch the package unless it is there; return its folder."""
    return install_once(FOLDER, _fetch, about="a package of 329 GitHub webhooks")


def read(folder: Path) -> list[Payload]:
    """Return every payload, in the package's order."""
    events = json.loads((folder / INDEX).read_bytes())
    return [Payload(event["name"], canonical(example)) for event in events for example in event["examples"]]


def canonical(value: object) -> bytes:
    """Return the one JSON spelling of a value that sender and receiver agree on."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _fetch(work: Path) -> None:
    run(["npm", "pack", "--ignore-scripts", f"@octokit/webhooks-examples@{VERSION}"], cwd=work)
    (archive,) = work.glob("*.tgz")
    with tarfile.open(archive) as package:
        name = next((name for name in package.getnames() if name.endswith(f"api.github.com/{INDEX}")), None)
        member = package.extractfile(name) if name else None
        if member is None:
            raise InstallFailed(f"{archive.name} has no api.github.com/{INDEX}")
        with member, (work / INDEX).open("wb") as copy:
            shutil.copyfileobj(member, copy)
    archive.unlink()
