"""Importing the SDK is cheap and starts nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAVY = "{'httpx', 'apsw', 'pydantic', 'fastapi', 'rich', 'typer', 'asyncio'}"


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import bus", HEAVY),
        ("from bus import Bus, AsyncBus; Bus('http://x')", "{'httpx', 'pydantic', 'fastapi', 'rich', 'typer'}"),
        ("from bus.cli.app import tree; tree()", "{'httpx', 'apsw', 'pydantic', 'fastapi', 'rich', 'asyncio'}"),
    ],
)
def test_nothing_heavy_is_loaded_and_no_thread_runs(statement: str, heavy: str) -> None:
    script = f"""
import sys, threading
{statement}
loaded = {heavy} & set(sys.modules)
assert not loaded, loaded
assert threading.active_count() == 1, threading.enumerate()
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
