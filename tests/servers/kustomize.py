"""kustomize 5.7.1, built from the Go module proxy: what ``kubectl apply -k`` makes of the folders in ``deploy``."""

from __future__ import annotations

from pathlib import Path

from tests.servers.cache import cache_dir, install_once, run

VERSION = "5.7.1"
FOLDER = f"kustomize-{VERSION}"
MODULE = f"sigs.k8s.io/kustomize/kustomize/v5@v{VERSION}"
PROGRAM = "kustomize"


def find() -> Path | None:
    """Return the program, None when it is not installed."""
    program = cache_dir() / FOLDER / PROGRAM
    return program if program.is_file() else None


def install() -> Path:
    """Build the program unless it is there; return it."""
    return install_once(FOLDER, _build, about="a Go build of half a minute") / PROGRAM


def _build(work: Path) -> None:
    run(["go", "install", "-buildvcs=false", "-trimpath", MODULE], cwd=work, env={"GOBIN": str(work)})


def build(program: Path, folder: Path) -> str:
    """Return what kustomize makes of a folder: YAML documents."""
    return run([str(program), "build", str(folder)])
