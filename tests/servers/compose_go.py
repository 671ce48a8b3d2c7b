"""The loader of Docker Compose, compose-go 2.9.0, built from the Go module proxy: whether it takes a file."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.servers.cache import cache_dir, install_once, run

VERSION = "2.9.0"
FOLDER = f"compose-go-{VERSION}"
MODULE = f"github.com/compose-spec/compose-go/v2@v{VERSION}"
PROGRAM = "compose-go"


def find() -> Path | None:
    """Return the program, None when it is not installed."""
    program = cache_dir() / FOLDER / PROGRAM
    return program if program.is_file() else None


def install() -> Path:
    """Build the program unless it is there; return it."""
    return install_once(FOLDER, _build, about="a Go build of ten seconds") / PROGRAM


def _build(work: Path) -> None:
    module = json.loads(run(["go", "mod", "download", "-json", MODULE], cwd=work))
    program = str(work / PROGRAM)
    run(["go", "build", "-buildvcs=false", "-trimpath", "-o", program, "./cmd"], cwd=Path(module["Dir"]))


def load(program: Path, file: Path) -> dict[str, Any]:
    """Return a file as Compose understands it, its variables as they stand.

    Raises
    ------
    CalledProcessError
        Compose refuses it; ``stderr`` says why.
    """
    command = [str(program), "-no-interpolation", "--format", "json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
