"""A check of installed packages for known faults, at a service of advisories.

It is asked once a day for the same packages. Where it cannot be reached nothing is known, which is said and fails
nothing: a change is not to wait for somebody else's server.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.harness.process import ROOT
from tests.supply.licences import FILE

PINNED: Final = ROOT / "constraints.txt"
_WITHIN: Final = 60.0
_SHOWN: Final = 200
_AWAY: Final = ("connect", "timed out", "timeout", "resolve", "resolution", "unreachable", "proxy")


class Found(NamedTuple):
    """What came of asking: findings, or why there was no answer."""

    findings: Sequence[str]
    away: str = ""


def audit(cache: Path, *, pinned: Path = PINNED, url: str = "", within: float = _WITHIN) -> Found:
    """Ask about all pinned packages, or take the answer that there was today.

    Parameters
    ----------
    cache
        A folder for answers.
    url
        Of another service that speaks as OSV does.
    within
        Seconds; a service that takes longer counts as away.
    """
    ignored: Mapping[str, str] = tomllib.loads(FILE.read_text("utf-8"))["audit"]["ignored"]
    argv = _argv(pinned, url, ignored)
    kept = cache / f"{_name(pinned, argv)}.json"
    if kept.exists():
        return Found(list(_findings(json.loads(kept.read_text()))))
    answer = _asked(argv, within)
    if isinstance(answer, str):
        return Found((), answer)
    cache.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(answer))
    return Found(list(_findings(answer)))


def _argv(pinned: Path, url: str, ignored: Mapping[str, str]) -> list[str]:
    options = ["--disable-pip", "--no-deps", "--format", "json", "--progress-spinner", "off", "--timeout", "5"]
    service = ["--vulnerability-service", "osv", *(["--osv-url", url] if url else [])]
    left_out = [word for each in ignored for word in ("--ignore-vuln", each)]
    return ["-m", "pip_audit", "--requirement", str(pinned), *options, *service, *left_out]


def _name(pinned: Path, argv: Sequence[str]) -> str:
    today = time.strftime("%Y-%m-%d", time.gmtime())
    return hashlib.sha256("\0".join([today, *argv, pinned.read_text()]).encode()).hexdigest()[:16]


def _asked(argv: Sequence[str], within: float) -> dict[str, Any] | str:
    try:
        done = subprocess.run(
            [sys.executable, *argv], capture_output=True, text=True, timeout=within, check=False, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {within:g} s"
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        if any(word in done.stderr.lower() for word in _AWAY):
            return last[:_SHOWN]
        raise RuntimeError(f"pip-audit fails with {done.returncode}: {done.stderr}") from None
    return answer


def _findings(answer: Mapping[str, Any]) -> Iterator[str]:
    for package in answer["dependencies"]:
        for fault in package.get("vulns", ()):
            fixed = f"fixed in {', '.join(fault['fix_versions'])}" if fault["fix_versions"] else "not fixed yet"
            yield f"{package['name']} {package['version']}: {fault['id']}, {fixed}"
