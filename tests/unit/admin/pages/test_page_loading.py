"""What a process pays for pages that nobody looks at."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Final

# What a process of all roles imports until it serves; the heavy part of the pages is not among it.
_STARTED: Final = """
import json, sys
from importlib.metadata import entry_points
import bus.serving.process
for role in entry_points(group="bus.roles"):
    role.load()
print(json.dumps(sorted(sys.modules)))
"""


def test_a_process_that_starts_does_not_load_what_pages_are_made_with() -> None:
    started = subprocess.run([sys.executable, "-c", _STARTED], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(json.loads(started.stdout))
    assert "admin.pages.site" in loaded
    assert not {"nicegui", "socketio", "admin.pages.build"} & loaded
