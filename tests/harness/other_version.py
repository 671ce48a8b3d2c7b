"""Another version of the bus, as an installation of its own: this one, with a field more in all that it writes."""

from __future__ import annotations

import ast
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tests.harness.process import ROOT

VERSION: Final = "0.2.0"
FIELD: Final = "of_another_version"

# What rests in queues and stores, and what processes tell each other.
_STRUCTS: Final[Mapping[str, tuple[str, ...]]] = {
    "bus/cluster/leaders.py": ("Lead",),
    "bus/cluster/member.py": ("HeldMessages", "Member"),
    "bus/domain/delivery/delivery.py": ("Attempt", "Delivery", "Outcome", "Compensation"),
    "bus/domain/delivery/concurrency_shares.py": ("View",),
    "bus/domain/destination.py": ("Destination",),
    "bus/domain/message.py": ("Message",),
    "bus/domain/subscription.py": ("Secret", "Subscription"),
    "bus/domain/tracing/trace.py": ("DeliveryTrace", "Trace"),
}


def install(folder: Path, version: str = VERSION) -> dict[str, str]:
    """Put the other version into a folder; return the environment in which the bus's program is of it."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file, names in _STRUCTS.items():
        for name in names:
            _add_field(folder / file, name)
    _describe(folder / f"pier_bus-{version}.dist-info", version, project["project"])
    return {"PYTHONPATH": str(folder)}


def _add_field(path: Path, name: str) -> None:
    """Give a struct a field more, behind its last one."""
    text = path.read_text()
    (found,) = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name]
    last = [node for node in found.body if isinstance(node, ast.AnnAssign)][-1]
    assert last.end_lineno is not None
    lines = text.splitlines(keepends=True)
    lines.insert(last.end_lineno, f'    {FIELD}: str = "more"\n')
    path.write_text("".join(lines))


def _describe(folder: Path, version: str, project: Mapping[str, Any]) -> None:
    """Write what an installer writes beside the packages."""
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.3\nName: {project['name']}\nVersion: {version}\n")
    (folder / "entry_points.txt").write_text("".join(_entry_points(project)))


def _entry_points(project: Mapping[str, Any]) -> Iterator[str]:
    for group, entries in {"console_scripts": project["scripts"], **project["entry-points"]}.items():
        yield f"[{group}]\n"
        yield from (f"{name} = {value}\n" for name, value in entries.items())
