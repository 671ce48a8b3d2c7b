"""The doctor asks the coordinator that the settings name."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.harness.process import ROOT, free_port


def checked(coordinator: str) -> dict[str, object]:
    """Return what the doctor finds of a coordinator, as a process without a bus."""
    command = [sys.executable, "-m", "bus.cli", "doctor", "--json", "--url", f"http://127.0.0.1:{free_port()}"]
    env = {**os.environ, "BUS_ZOOKEEPER": coordinator}
    ran = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    return next(check for check in json.loads(ran.stdout)["checks"] if check["name"] == "coordinator")


def test_one_that_answers(place: str) -> None:
    found = checked(place)
    assert (found["ok"], found["detail"]) == (True, f"ZooKeeper at {place} is reachable")


def test_one_that_is_away() -> None:
    found = checked(f"127.0.0.1:{free_port()}")
    assert not found["ok"]
    assert "ZooKeeper cannot be reached" in str(found["detail"])
    assert "check that ZooKeeper runs" in str(found["do"])
