"""Debian's Prometheus, unpacked and not installed, with its ``promtool``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.harness.http import PLAIN
from tests.harness.process import free_port
from tests.servers.cache import cache_dir, install_once, unpack_packages
from tests.servers.running import LocalServer

FOLDER = "prometheus"
PROGRAM = "usr/bin/prometheus"
TOOL = "usr/bin/promtool"


def find() -> Path | None:
    """Return the folder of the programs, None when they are not installed."""
    folder = cache_dir() / FOLDER
    return folder if (folder / PROGRAM).is_file() else None


def install() -> Path:
    """Download and unpack the package unless it is there; return the folder."""
    return install_once(FOLDER, _build, about="a package of 20 megabytes")


def _build(work: Path) -> None:
    unpack_packages(work, "prometheus")


class PrometheusServer(LocalServer):
    """A Prometheus with a configuration of its own.

    Parameters
    ----------
    programs
        The folder that ``install`` returned.
    settings
        The text of ``prometheus.yml``.
    """

    name = "prometheus"

    def __init__(self, programs: Path, folder: Path, settings: str) -> None:
        super().__init__(folder)
        self._program = programs / PROGRAM
        self._port = free_port()
        self._settings = settings
        self.url = f"http://127.0.0.1:{self._port}"

    def prepare(self) -> None:
        """Write its configuration."""
        (self.folder / "prometheus.yml").write_text(self._settings, "utf-8")

    def argv(self) -> list[str]:
        """Serve on loopback, and keep what it scrapes in its folder."""
        options = {
            "config.file": self.folder / "prometheus.yml",
            "storage.tsdb.path": self.data,
            "web.listen-address": f"127.0.0.1:{self._port}",
        }
        return [str(self._program), *(f"--{name}={value}" for name, value in options.items())]

    def answers(self) -> bool:
        """Whether it is ready."""
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=2, **PLAIN).is_success
        except httpx.TransportError:
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the series of an expression as it is now; raises ``HTTPStatusError`` for one that is wrong."""
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": expression}, timeout=30, **PLAIN)
        found: list[dict[str, Any]] = answer.raise_for_status().json()["data"]["result"]
        return found

    def targets(self) -> list[dict[str, Any]]:
        """Return what it scrapes, and how that went."""
        answer = httpx.get(f"{self.url}/api/v1/targets", timeout=10, **PLAIN).raise_for_status()
        found: list[dict[str, Any]] = answer.json()["data"]["activeTargets"]
        return found
