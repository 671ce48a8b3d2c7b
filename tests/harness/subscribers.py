"""Starts ``tests.harness.subscriber`` and speaks with it."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Self

import httpx

from tests.harness.http import PLAIN
from tests.harness.process import Child, module
from tests.harness.records import Call, load_tally, read_calls


class SubscriberProcess:
    """A subscriber on a free port.

    Parameters
    ----------
    folder
        Where its record and its log go.
    paths
        Specifications such as ``/slow=delay:0.2``; other paths answer 200 at once.
    batches
        Of a tally: each call is a batch, which a record tells by itself.
    certificate
        PEM file of a certificate and its key, to be called by https.
    """

    def __init__(
        self,
        folder: Path,
        *paths: str,
        name: str = "subscriber",
        tally: bool = False,
        batches: bool = False,
        fsync: bool = True,
        certificate: Path | None = None,
    ) -> None:
        self._scheme = "http" if certificate is None else "https"
        self.record = folder / f"{name}.jsonl"
        self._specs = [argument for path in paths for argument in ("--path", path)]
        self._mode = (
            ["--tally", *(["--batches"] if batches else [])]
            if tally
            else ["--record", str(self.record), *(["--fsync"] if fsync else [])]
        )
        if certificate is not None:
            self._mode += ["--certificate", str(certificate)]
        self._log = folder / f"{name}.log"
        self.child = Child([], log=self._log)
        self.port = 0

    def start(self) -> Self:
        """Start it on any port the first time, later on the same one."""
        argv = module("tests.harness.subscriber", "--port", self.port, *self._mode, *self._specs)
        self.child = Child(argv, log=self._log).start()
        self.port = int(self.child.ready_line()["port"])
        self._http = httpx.Client(base_url=self.url(""), timeout=30, **PLAIN)
        return self

    def url(self, path: str) -> str:
        """Return the URL of a path, for a subscription."""
        return f"{self._scheme}://127.0.0.1:{self.port}{path}"

    def calls(self, path: str | None = None) -> list[Call]:
        """Return what was recorded so far, in order."""
        return [call for call in read_calls(self.record) if path is None or call.path == path]

    def count(self, path: str) -> int:
        """Return how many calls of a path there were since the last reset."""
        return int(self._http.get(f"/_count?{path}").raise_for_status().text)

    def tally(self, path: str) -> tuple[array[int], array[float]]:
        """Return sequence numbers and arrival times (monotonic) of a path, in order."""
        return load_tally(self._http.get(f"/_tally?{path}").raise_for_status().content)

    def reset(self) -> None:
        """Forget counts and tallies."""
        self._http.post("/_reset").raise_for_status()

    def configure(self, spec: str) -> None:
        """Change the behaviour of a path: ``/slow=delay:0.2``."""
        self._http.post("/_path", content=spec).raise_for_status()

    def stop(self) -> int:
        """Stop it with SIGTERM and return the exit code."""
        self._http.close()
        return self.child.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self.child.kill()
