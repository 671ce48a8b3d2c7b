"""The S3 gateway of Versity 1.8.0, built from the Go module proxy: a folder, served as buckets of objects."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.harness.http import PLAIN
from tests.harness.process import free_port
from tests.servers.cache import cache_dir, install_once, run
from tests.servers.running import LocalServer

VERSION = "1.8.0"
FOLDER = f"versitygw-{VERSION}"
PROGRAM = "versitygw"
MODULE = f"github.com/versity/versitygw@v{VERSION}"
KEY, SECRET, REGION = "pier", "a secret of tests", "us-east-1"


def find() -> Path | None:
    """Return the program, None when it is not installed."""
    program = cache_dir() / FOLDER / PROGRAM
    return program if program.is_file() else None


def install() -> Path:
    """Build the program unless it is there; return it."""
    return install_once(FOLDER, _build, about="a Go build of a minute or two") / PROGRAM


def _build(work: Path) -> None:
    module = json.loads(run(["go", "mod", "download", "-json", MODULE], cwd=work))
    program = str(work / PROGRAM)
    run(["go", "build", "-buildvcs=false", "-trimpath", "-o", program, "./cmd/versitygw"], cwd=Path(module["Dir"]))


class S3Server(LocalServer):
    """A gateway on a port of its own; an object is a file below its bucket's folder.

    Parameters
    ----------
    program
        What ``install`` returned.

    Attributes
    ----------
    environment
        By which clients find it.
    """

    name = PROGRAM

    def __init__(self, program: Path, folder: Path) -> None:
        super().__init__(folder)
        self._program = program
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
        }

    def bucket(self, name: str) -> Path:
        """Make a bucket, and return the folder in which its objects are files."""
        folder = self.data / name
        folder.mkdir()
        return folder

    def argv(self) -> list[str]:
        """Serve on loopback."""
        return [str(self._program), "--port", f"127.0.0.1:{self._port}", "--health", "/health", "posix", str(self.data)]

    def env(self) -> dict[str, str]:
        """Name who may do everything."""
        return {"ROOT_ACCESS_KEY_ID": KEY, "ROOT_SECRET_ACCESS_KEY": SECRET, "VGW_REGION": REGION}

    def answers(self) -> bool:
        """Whether it says that it is well."""
        try:
            return httpx.get(f"{self.url}/health", timeout=2, **PLAIN).is_success
        except httpx.TransportError:
            return False
