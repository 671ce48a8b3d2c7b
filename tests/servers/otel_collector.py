"""The OpenTelemetry Collector 0.165.0, built from the Go module proxy: takes OTLP and writes what it took to a file."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.harness.http import PLAIN
from tests.harness.process import free_port
from tests.servers.cache import ROOT, cache_dir, install_once, run
from tests.servers.running import LocalServer

VERSION = "0.165.0"
PROGRAM = "otel-collector"
SOURCE = ROOT / "tests" / "servers" / PROGRAM
_CONFIG = """
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
exporters:
  lines:
    path: {file}
service:
  telemetry:
    metrics:
      level: none
  pipelines:
    traces:
      receivers: [otlp]
      exporters: [lines]
"""


def find() -> Path | None:
    """Return the program, None when it is not installed."""
    program = cache_dir() / _folder() / PROGRAM
    return program if program.is_file() else None


def install() -> Path:
    """Build the program unless it is there; return it."""
    return install_once(_folder(), _build, about="a Go build of some minutes") / PROGRAM


def _folder() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCE.iterdir()):
        digest.update(path.read_bytes())
    return f"{PROGRAM}-{VERSION}-{digest.hexdigest()[:8]}"


def _build(work: Path) -> None:
    source = work / "source"
    shutil.copytree(SOURCE, source)
    run(["go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", f"{work}/", "."], cwd=source)
    shutil.rmtree(source)


@dataclass(frozen=True)
class Told:
    """A span that the collector took."""

    name: str
    kind: int
    trace_id: str
    span_id: str
    parent_id: str
    state: str
    flags: int
    start: int
    end: int
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    error: str | None
    resource: dict[str, Any]


class OtelCollector(LocalServer):
    """A collector on a port of its own.

    Parameters
    ----------
    program
        What ``install`` returned.
    """

    name = PROGRAM

    def __init__(self, program: Path, folder: Path) -> None:
        super().__init__(folder)
        self._program = program
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.file = self.data / "traces.jsonl"

    def prepare(self) -> None:
        """Write its configuration."""
        (self.folder / "collector.yaml").write_text(_CONFIG.format(port=self._port, file=self.file), "utf-8")

    def argv(self) -> list[str]:
        """Serve on loopback."""
        return [str(self._program), "--config", f"file:{self.folder / 'collector.yaml'}"]

    def answers(self) -> bool:
        """Whether it takes an empty request."""
        try:
            return httpx.post(f"{self.url}/v1/traces", json={}, timeout=2, **PLAIN).is_success
        except httpx.TransportError:
            return False

    def spans(self) -> list[Told]:
        """Return all that it took so far."""
        lines = self.file.read_bytes().splitlines() if self.file.exists() else []
        return [span for line in lines for span in _spans(json.loads(line))]


def _spans(request: dict[str, Any]) -> Iterator[Told]:
    for group in request.get("resourceSpans", []):
        resource = _values(group["resource"]["attributes"])
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                yield _told(span, resource)


def _told(span: dict[str, Any], resource: dict[str, Any]) -> Told:
    status = span.get("status", {})
    return Told(
        name=span["name"],
        kind=span["kind"],
        trace_id=span["traceId"],
        span_id=span["spanId"],
        parent_id=span.get("parentSpanId", ""),
        state=span.get("traceState", ""),
        flags=span.get("flags", 0),
        start=int(span["startTimeUnixNano"]),
        end=int(span["endTimeUnixNano"]),
        attributes=_values(span.get("attributes", [])),
        links=[(link["traceId"], link["spanId"]) for link in span.get("links", [])],
        error=status.get("message", "") if status.get("code") == 2 else None,
        resource=resource,
    )


def _values(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        (kind, value), *_ = pair["value"].items()
        found[pair["key"]] = int(value) if kind == "intValue" else value
    return found
