"""Grafana's own types of a dashboard, and the compiler that holds one against them: npm packages, as no Grafana is."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.servers.cache import cache_dir, install_once, run

VERSION = "13.2.3"
COMPILER = "5.9.3"
FOLDER = f"grafana-schema-{VERSION}"
_TYPES = "@grafana/schema/dist/types/raw/dashboard/x/types.gen"
# The types have enumerations where JSON has their texts.
_MEMBERS = {
    '"mode": "absolute"': '"mode": ThresholdsMode.Absolute',
    '"mode": "palette-classic"': '"mode": FieldColorModeId.PaletteClassic',
    '"mode": "thresholds"': '"mode": FieldColorModeId.Thresholds',
}
_OPTIONS = ["--noEmit", "--strict", "--skipLibCheck", "--moduleResolution", "bundler", "--module", "esnext"]


def find() -> Path | None:
    """Return the folder with ``node_modules``, None when it is not installed."""
    folder = cache_dir() / FOLDER
    return folder if folder.is_dir() else None


def install() -> Path:
    """Install the packages unless they are there; return their folder."""
    return install_once(FOLDER, _build, about="two npm packages of 30 megabytes")


def _build(work: Path) -> None:
    packages = [f"@grafana/schema@{VERSION}", f"typescript@{COMPILER}"]
    run(["npm", "install", "--prefix", str(work), "--no-audit", "--no-fund", "--ignore-scripts", *packages], cwd=work)


def complaints(folder: Path, work: Path, dashboards: Sequence[str]) -> str:
    """Return what the compiler says against dashboards as JSON; empty when each is one as Grafana knows them."""
    names = "Dashboard, FieldColorModeId, ThresholdsMode"
    lines = [f"import {{ {names} }} from '{folder / 'node_modules' / _TYPES}';"]
    literal = re.compile("|".join(map(re.escape, _MEMBERS)))
    for number, text in enumerate(dashboards):
        typed = literal.sub(lambda found: _MEMBERS[found[0]], text)
        lines.append(f"export const dashboard{number}: Dashboard = {typed};")
    source = work / "dashboards.ts"
    source.write_text("\n".join(lines), "utf-8")
    compiler = [str(folder / "node_modules/typescript/bin/tsc"), *_OPTIONS, str(source)]
    return subprocess.run(compiler, capture_output=True, text=True, check=False).stdout
