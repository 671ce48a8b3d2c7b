"""Toxiproxy 2.12.0, built from the Go module proxy: a network between client and server that a test spoils."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import httpx

from tests.harness.http import PLAIN
from tests.harness.process import free_port
from tests.servers.cache import cache_dir, install_once, run
from tests.servers.running import LocalServer

VERSION = "2.12.0"
FOLDER = f"toxiproxy-{VERSION}"
PROGRAM = "toxiproxy-server"
MODULE = f"github.com/Shopify/toxiproxy/v2@v{VERSION}"

Stream = Literal["upstream", "downstream"]
ToxicType = Literal["latency", "bandwidth", "slow_close", "timeout", "reset_peer", "slicer", "limit_data"]


def find() -> Path | None:
    """Return the folder of the program, None when it is not installed."""
    folder = cache_dir() / FOLDER
    return folder if folder.is_dir() else None


def install() -> Path:
    """Build the program unless it is there; return its folder."""
    return install_once(FOLDER, _build, about="a Go build of about half a minute")


def _build(work: Path) -> None:
    # Inside the module's folder, so that its own go.mod holds.
    module = json.loads(run(["go", "mod", "download", "-json", MODULE], cwd=work))
    program = str(work / PROGRAM)
    run(["go", "build", "-buildvcs=false", "-trimpath", "-o", program, "./cmd/server"], cwd=Path(module["Dir"]))


@dataclass
class Proxy:
    """One listening port that passes everything on to an upstream, until told otherwise.

    Attributes
    ----------
    name
        Unique in the server.
    port
        Where it listens on 127.0.0.1; the same over ``disable`` and ``enable``.
    upstream
        ``host:port`` behind it.
    """

    name: str
    port: int
    upstream: str
    api: httpx.Client

    @property
    def address(self) -> str:
        """``host:port`` for clients."""
        return f"127.0.0.1:{self.port}"

    def disable(self) -> None:
        """Close the port and every connection through it: refused until ``enable``."""
        self._call("POST", "", {"enabled": False})

    def enable(self) -> None:
        """Listen again."""
        self._call("POST", "", {"enabled": True})

    def add(
        self,
        kind: ToxicType,
        *,
        stream: Stream = "downstream",
        toxicity: float = 1.0,
        name: str | None = None,
        **attributes: float,
    ) -> str:
        """Spoil a direction and return the toxic's name; for connections that are open as well.

        Parameters
        ----------
        kind
            ``latency`` (latency, jitter: ms), ``bandwidth`` (rate: KB/s), ``timeout`` (timeout: ms; 0 swallows
            everything for ever, which is a half-open connection), ``reset_peer`` (timeout: ms), ``slow_close``
            (delay: ms), ``slicer`` (average_size, size_variation: bytes; delay: us), ``limit_data`` (bytes).
        stream
            ``downstream`` is what the server says, ``upstream`` what the client says.
        toxicity
            The share of connections it applies to.
        """
        name = name or f"{kind}-{stream}"
        toxic = {"name": name, "type": kind, "stream": stream, "toxicity": toxicity, "attributes": attributes}
        self._call("POST", "/toxics", toxic)
        return name

    def remove(self, toxic: str) -> None:
        """Undo ``add``."""
        self._call("DELETE", f"/toxics/{toxic}")

    def heal(self) -> None:
        """Remove every toxic and enable the proxy."""
        for toxic in self._call("GET", "/toxics").json():
            self.remove(toxic["name"])
        self.enable()

    def delete(self) -> None:
        """Close the port for good."""
        self._call("DELETE", "")

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> httpx.Response:
        return self.api.request(method, f"/proxies/{self.name}{path}", json=body).raise_for_status()


class Toxiproxy(LocalServer):
    """The server of proxies; each proxy is a port of its own.

    Parameters
    ----------
    programs
        The folder that ``install`` returned.
    """

    name = "toxiproxy"

    def __init__(self, programs: Path, folder: Path) -> None:
        super().__init__(folder)
        self._program = programs / PROGRAM
        self.port = free_port()
        self._api = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=10, **PLAIN)

    def argv(self) -> list[str]:
        """Listen for orders on a port of loopback."""
        return [str(self._program), "-host", "127.0.0.1", "-port", str(self.port)]

    def answers(self) -> bool:
        """Whether its API answers."""
        try:
            return self._api.get("/version").is_success
        except httpx.TransportError:
            return False

    def proxy(self, name: str, upstream: str, *, port: int | None = None) -> Proxy:
        """Make a proxy in front of ``upstream`` (``host:port``), on a free port unless one is given."""
        proxy = Proxy(name, port or free_port(), upstream, self._api)
        order = {"name": name, "listen": proxy.address, "upstream": upstream, "enabled": True}
        self._api.post("/proxies", json=order).raise_for_status()
        return proxy

    def close(self) -> None:
        """SIGKILL it; every proxy is gone."""
        self._api.close()
        super().close()
