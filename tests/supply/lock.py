"""The lock of all dependencies, ``constraints.txt``, which holds for every Python that ``requires-python`` allows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tests.harness.process import ROOT
from tests.supply.installed import project

LOCK: Final = ROOT / "constraints.txt"
_UV: Final = Path(sys.executable).parent / "uv"
_WITHIN: Final = 300.0


def write(lock: Path = LOCK) -> None:
    """Resolve all extras for the oldest Python and all later ones; versions in the file are kept where they fit."""
    _compile("--universal", "--python-version", _oldest(), "--output-file", str(lock))


def complaints(lock: Path = LOCK) -> Iterator[str]:
    """Return why the lock does not fit ``pyproject.toml``, or a Python that is allowed."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, lock.name)
        shutil.copy(lock, fresh)
        write(fresh)
        pins, wanted = (set(file.read_text("utf-8").splitlines()) for file in (lock, fresh))
    for pin in sorted(pins ^ wanted):
        yield f"{lock.name}: {pin} is {'missing' if pin in wanted else 'not to be'} there: make constraints"
    # A universal resolution leaves out which newest Python a package allows.
    for version in (_oldest(), _newest()):
        try:
            _compile("--python-version", version, "--constraint", str(lock))
        except subprocess.CalledProcessError as error:
            yield f"{lock.name} does not hold for Python {version}: {error.stderr.strip()}"


def _oldest() -> str:
    allowed = SpecifierSet(str(project()["requires-python"]))
    return min(Version(each.version) for each in allowed).base_version


def _newest() -> str:
    listed = json.loads(_uv("python", "list", "--only-downloads", "--output-format", "json"))
    versions = (Version(each["version"]) for each in listed if each["implementation"] == "cpython")
    return str(max(version for version in versions if not version.is_prerelease))


def _compile(*options: str) -> None:
    _uv("pip", "compile", "--quiet", "--all-extras", "--no-header", "--no-annotate", "pyproject.toml", *options)


def _uv(*argv: str) -> str:
    done = subprocess.run([_UV, *argv], capture_output=True, text=True, timeout=_WITHIN, check=True, cwd=ROOT)
    return done.stdout
