"""``python -m deploy.grafana`` writes the dashboards anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from deploy.grafana.pages import ALL
from deploy.grafana.panels import Dashboard, document

FOLDER: Final = Path(__file__).parent / "dashboards"


def text(dashboard: Dashboard) -> str:
    """Return what the file of a dashboard has in it."""
    return json.dumps(document(dashboard), indent=2) + "\n"


def write(folder: Path) -> None:
    """Write a file for each dashboard, and remove those of dashboards that are no more."""
    folder.mkdir(exist_ok=True)
    files = {folder / f"{dashboard.uid}.json": text(dashboard) for dashboard in ALL}
    for path in set(folder.glob("*.json")) - set(files):
        path.unlink()
    for path, content in files.items():
        path.write_text(content, "utf-8")


if __name__ == "__main__":
    write(FOLDER)
