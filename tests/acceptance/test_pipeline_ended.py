"""Commands of the pipeline that are ended from outside say so in a line, and leave what the next run goes on with."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from pipeline.lake.batches import READ_LINE
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from tests.harness.killed_jobs import batches_noted, files_below
from tests.harness.process import Child, module
from tests.harness.trace_traffic import write_traffic
from tests.harness.waiting import wait_until

WITHIN = 300.0
MANY, FILES = 3_000, 5
INTERRUPTED = 130
# Who starts the tests in the background has them, and what they start, ignore SIGINT.
HEARING = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, sys.argv[1:])"


def _stream(tmp_path: Path, *more: object) -> Child:
    arguments = ("--events", tmp_path / "events", "--lake", tmp_path / "lake", "--batch", 0.01, "--json", *more)
    return Child(module("pipeline", "rollup", *arguments), log=tmp_path / "stream.log")


def _begins(stream: Child, lake: Path) -> None:
    before = batches_noted(lake, "offsets")
    stream.start()
    wait_until(
        lambda: stream.check_running() and batches_noted(lake, "offsets") > before,
        within=WITHIN,
        what="a batch to begin",
    )


@pytest.mark.proof
def test_a_stream_ends_between_two_batches(tmp_path: Path) -> None:
    traffic = write_traffic(tmp_path / "events", MANY, files=FILES)
    lake, stream = tmp_path / "lake", _stream(tmp_path, "--every", 1)
    try:
        _begins(stream, lake)
        wait_until(
            lambda: stream.check_running() and batches_noted(lake, "commits"), within=WITHIN, what="a batch to end"
        )
        assert stream.stop(WITHIN) == 0, stream.output()
        assert batches_noted(lake, "offsets") - batches_noted(lake, "commits") <= 1, "a batch that had only just begun"
        for word in ("Traceback", "ERROR", "error:"):
            assert word not in stream.output()
        _begins(stream, lake)
        os.killpg(stream.pid, signal.SIGTERM)  # Spark's own process with it, as a service manager does
        assert stream.wait(WITHIN) == 0, stream.output()
        for word in ("Traceback", "error:"):
            assert word not in stream.output()
        whole = _stream(tmp_path, "--once")
        assert whole.start().wait(WITHIN) == 0, whole.output()
    finally:
        stream.kill()
    good = sum(manifest.facts["verdicts"]["good"] for manifest in Lake(Storage(str(lake))).manifests(READ_LINE))
    assert good == sum(counts[0] for counts in traffic.counts.values())


def _proving(tmp_path: Path) -> tuple[Child, Path]:
    """Return ``reconcile`` at work over a lake, and the folder where Spark shuffles."""
    write_traffic(tmp_path / "events", MANY, files=FILES)
    assert _stream(tmp_path, "--once", "--batch", 100).start().wait(WITHIN) == 0
    spill, told = tmp_path / "spill", ("reconcile", "--lake", tmp_path / "lake", "--complete")
    command = [sys.executable, "-c", HEARING, *module("pipeline", *told)]
    proving = Child(command, log=tmp_path / "proving.log", env={"SPARK_LOCAL_DIRS": str(spill)})
    return proving.start(), spill


def _shuffled(spill: Path) -> bool:
    return any(name.endswith(".data") for name in files_below(spill))


def _works(proving: Child, spill: Path) -> None:
    wait_until(lambda: proving.check_running() and _shuffled(spill), within=WITHIN, what="jobs to run")


@pytest.mark.proof
def test_a_job_ends_at_ctrl_c_and_when_spark_dies(tmp_path: Path) -> None:
    proving, spill = _proving(tmp_path)
    try:
        _works(proving, spill)
        proving.signal(signal.SIGINT)
        assert proving.wait(WITHIN) == INTERRUPTED, proving.output()
        assert "Traceback" not in proving.output()
        wait_until(lambda: not _shuffled(spill), within=WITHIN, what="Spark to tidy up")
        proving.start()
        _works(proving, spill)
        (java,) = [each for each in psutil.Process(proving.pid).children(recursive=True) if "java" in each.name()]
        java.kill()
        assert proving.wait(WITHIN) == 1, proving.output()
        assert "error: Spark's own process ended in the middle" in proving.output()
        assert "Traceback" not in proving.output()
    finally:
        proving.kill()
