"""Buses on several hosts, cut off, stopped, killed and left without store and broker: no promise is broken."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.hosts.brokers import PLACES
from tests.harness.pods import privately
from tests.harness.process import Child, module
from tests.proofs.figures import Figures, note
from tests.servers import missing, need


def laboratory(folder: Path, *options: object, within: float) -> dict[str, Any]:
    """Run a schedule of faults, and return what was found."""
    need("mongodb")
    if subprocess.run(privately(["true"]), check=False, capture_output=True).returncode:
        missing("network namespaces cannot be made here: hosts are not tried")
    words = module("tests.acceptance.hosts.lab", "--work", folder, *options)
    with Child(privately(words), log=folder / "lab.log") as lab:
        lab.wait(within)
        text = lab.log.read_text("utf-8")
    print(text)
    found = dict(json.loads(text.splitlines()[-1]))
    faults = sum(line.startswith("fault ") for line in text.splitlines())
    note(Figures(messages=found["accepted"], faults=faults, duplicates=sum(found["repeated"].values())))
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return laboratory(tmp_path_factory.mktemp("hosts"), "--small", within=150)


@pytest.mark.timeout(240)
def test_a_partition_and_a_stall_of_two_hosts_break_no_promise(small: dict[str, Any]) -> None:
    assert small["accepted"] > 100
    assert not small["complaints"]


@pytest.mark.proof
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", range(40))
def test_no_promise_is_broken_on_three_hosts_whatever_fails(tmp_path: Path, seed: int) -> None:
    transport, shape = tuple(PLACES)[seed % 3], ["--apart"] * (seed // 3 % 2)
    need(transport) if transport != "direct" else None
    found = laboratory(tmp_path, "--seed", seed, "--transport", transport, *shape, within=1_100)
    assert not found["complaints"]
