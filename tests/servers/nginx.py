"""Debian's nginx, unpacked and not installed, so that none is started beside the tests."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.harness.http import PLAIN
from tests.harness.process import free_port
from tests.servers.cache import cache_dir, install_once, unpack_packages
from tests.servers.running import LocalServer

FOLDER = "nginx"
PROGRAM = "usr/sbin/nginx"


def find() -> Path | None:
    """Return the program, None when it is not installed."""
    found = cache_dir() / FOLDER / PROGRAM
    return found if found.is_file() else None


def install() -> Path:
    """Download and unpack the package unless it is there; return the program."""
    return install_once(FOLDER, _build, about="a package of half a megabyte") / PROGRAM


def _build(work: Path) -> None:
    unpack_packages(work, "nginx")


class NginxServer(LocalServer):
    """An nginx with one file of settings for its ``http`` block.

    Parameters
    ----------
    settings
        The text of the file; ``PORT`` in it stands for the port that it listens on.

    Attributes
    ----------
    url
        Where it serves.
    """

    name = "nginx"

    def __init__(self, program: Path, folder: Path, settings: str) -> None:
        super().__init__(folder)
        self._program = program
        self._port = free_port()
        self._settings = settings.replace("PORT", str(self._port))
        self.url = f"http://127.0.0.1:{self._port}"

    def prepare(self) -> None:
        """Write its configuration."""
        inside = f"access_log off; client_body_temp_path {self.data}; proxy_temp_path {self.data};"
        others = "".join(f"{name}_temp_path {self.data};" for name in ("fastcgi", "uwsgi", "scgi"))
        (self.folder / "nginx.conf").write_text(
            f"daemon off; master_process off; pid {self.data}/pid; error_log stderr;\n"
            f"events {{}}\nhttp {{ {inside} {others}\n{self._settings}\n}}\n"
        )

    def argv(self) -> list[str]:
        """Run it in the foreground."""
        return [str(self._program), "-e", "stderr", "-c", str(self.folder / "nginx.conf")]

    def answers(self) -> bool:
        """Whether it answers anything."""
        try:
            return httpx.get(self.url, timeout=2, **PLAIN).status_code > 0
        except httpx.TransportError:
            return False
