"""Small C libraries that are loaded into a process before the C library's own functions."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.servers import missing


def build_library(source: Path, folder: Path) -> Path:
    """Compile one source file into a library in ``folder``, for ``LD_PRELOAD``."""
    library = folder / f"{source.stem}.so"
    argv = ["cc", "-shared", "-fPIC", "-O2", "-o", str(library), str(source), "-ldl"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    except FileNotFoundError:
        missing(f"{source.name} cannot be compiled: cc is not on the PATH")
    if done.returncode:
        missing(f"{source.name} cannot be compiled: {done.stderr.strip()}")
    return library
