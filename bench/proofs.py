"""A proof as people run it: ``bus pipeline rollup --once`` and ``reconcile`` with the store, each a command of its own.

Beside each is a Spark session that does nothing, started in the same run: what no proof can be faster than. Then the
same proof by ``bus pipeline serve``, whose session stays, with the bus up.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from bench.report import Row, against_limit
from bench.run import FULL, QUICK, Run
from bench.sending import Sending, wait_arrived
from bench.systems import Pier
from bench.usage import Usage
from bus.domain.times import parse_time
from tests.harness.bus_process import BusProcess
from tests.harness.process import Child, module
from tests.harness.waiting import wait_until

SECTION = "proofs"
SIZES = {QUICK: (1_000,), FULL: (0, 1_000, 100_000)}
NORMAL_SIZES = (0, 1_000)
WANTED = 15.0
WANTED_OF = 1_000
WANTED_OF_SERVE = 5.0
WITHIN = 900.0
_COLD = 3
_SERVED = 'every = 1\nreconcile = ""\njudge = ""\ncompact = ""\nbaseline = ""\nreconcile_allowance = "5s"\n'
_EMPTY = "from pipeline.session import open_session as o; s = o('empty', small=True); s.range(1).collect(); s.stop()"
_STORE = 'consumer="store"'
_LOOK = 0.05
_MINUTE = 60.0
_JOB, _TASK = "SparkListenerJobStart", "SparkListenerTaskEnd"
_EVENT_LOG = """\
spark.eventLog.enabled true
spark.eventLog.dir {folder}
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
"""


class Done(NamedTuple):
    """What a command took: seconds, seconds of processor time, jobs and tasks of Spark."""

    seconds: float
    cpu: float
    jobs: int
    tasks: int


def measure(run: Run) -> list[Row]:
    """Return the rows of each size, on a machine that was prepared."""
    subprocess.run(module("pipeline", "prepare"), check=True, capture_output=True, timeout=WITHIN)
    return [row for messages in SIZES.get(run.size, NORMAL_SIZES) for row in rows_of(run, messages)]


def rows_of(run: Run, messages: int) -> list[Row]:
    """Have a bus deliver so many messages, and prove them; the store and the events are then at rest."""
    run.step(f"proof of {messages:,} messages")
    with run.place() as folder, run.sink() as sink, run.system("bus", [sink.url("/a"), sink.url("/b")]) as system:
        assert isinstance(system, Pier)
        if messages:
            Sending(system.publish_url, messages).result()
            wait_arrived(sink, ["/a", "/b"], messages)
            wait_until(lambda: not _unstored(system.bus.admin.metrics()), within=WITHIN, what="the store has it all")
        data, lake = system.bus.data, folder / "lake"
        system.bus.stop()
        (system.bus.data / "events").mkdir(exist_ok=True)  # without messages there are none
        time.sleep(_MINUTE - time.time() % _MINUTE + 1)  # what is of the minute that lasts is not judged
        store = f"sqlite:///{data / 'store'}"
        rollup = ["rollup", "--events", str(data / "events"), "--lake", str(lake), "--once"]
        proof = ["reconcile", "--lake", str(lake), "--store", store, "--complete", "--allowance", "1s"]
        commands = {"rollup": rollup} | ({"reconcile with the store": proof} if messages else {})
        rows = []
        for name, arguments in commands.items():
            rows += _rows(f"{name} of {messages:,} messages", arguments, folder, run.size.rounds, wanted=messages)
        return rows + (_served(system.bus.start(), folder, messages, run.size.rounds) if messages else [])


def _served(bus: BusProcess, folder: Path, messages: int, rounds: int) -> list[Row]:
    """Return what proofs take in a session that stays, the first ones apart: Java compiles in them."""
    config = folder / "bus.toml"
    config.write_text(f'[pipeline]\nlake = "{folder / "served"}"\n{_SERVED}')
    given = ("serve", "--config", config, "--data", bus.data, "--url", bus.url, "--json")
    with Child(module("pipeline", *given), log=folder / "serve.log") as serving:
        proofs = [_proof(bus, serving, number) for number in range(_COLD + rounds)]
        serving.stop()
    what, warm = f"reconcile of {messages:,} messages by serve", proofs[_COLD:]
    rows = [Row(SECTION, what, warm, "s", "its first one", proofs[:1] * rounds)]
    if messages == WANTED_OF:
        rows.append(against_limit(SECTION, "beside what is wanted", warm, "s", WANTED_OF_SERVE))
    return rows


def _proof(bus: BusProcess, serving: Child, number: int) -> float:
    """Have a proof made that judges, and return what it took in seconds."""
    path = "/api/v1/pipeline"

    def ended() -> dict[str, Any] | None:
        serving.check_running()
        shown = (bus.admin.call("GET", path).json()["pipeline"] or {}).get("runs", [])
        judged = [run for run in shown if run["ended_at"] and run["verdict"] not in ("unheard", "nothing")]
        if len(judged) > number:
            return dict(judged[0])
        if all(run["ended_at"] for run in shown):
            bus.admin.call("POST", f"{path}/runs", json={"job": "reconcile"})
        return None

    run = wait_until(ended, within=WITHIN, what="a proof that judges", every=0.3)
    return (parse_time(run["ended_at"]) - parse_time(run["began_at"])) / 1000


def _unstored(metrics: str) -> float:
    """Return how many records wait for the store."""
    lines = [line for line in metrics.splitlines() if line.startswith("bus_spool_records{") and _STORE in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def _rows(what: str, arguments: Sequence[str], folder: Path, rounds: int, *, wanted: int) -> list[Row]:
    """Run a command and an empty session in turn, the command each time over the lake that there was at first."""
    mine, empty = [], []
    lake, made = folder / "lake", folder / "made"
    for _ in range(rounds):
        shutil.rmtree(made, ignore_errors=True)
        if lake.exists():
            shutil.copytree(lake, made)
        given = [str(made) if text == str(lake) else text for text in arguments]
        mine.append(run_once(module("pipeline", *given), folder))
        empty.append(run_once([sys.executable, "-c", _EMPTY], folder))
    shutil.rmtree(lake, ignore_errors=True)
    made.rename(lake)
    counts = f"{mine[-1].jobs} jobs, {mine[-1].tasks} tasks"
    seconds = [done.seconds for done in mine]
    rows = [
        Row(SECTION, what, seconds, "s", "empty session", [done.seconds for done in empty], note=counts),
        Row(SECTION, "its processor time", [d.cpu for d in mine], "s", "empty session", [d.cpu for d in empty]),
    ]
    if wanted == WANTED_OF:
        rows.append(against_limit(SECTION, "beside what is wanted", seconds, "s", WANTED))
    return rows


def run_once(argv: Sequence[str], folder: Path) -> Done:
    """Run a program that uses Spark to its end; raises ``ChildProcessError`` when that is a failure."""
    logs = folder / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    (logs / "spark.properties").write_text(_EVENT_LOG.format(folder=(logs / "events").as_uri()))
    (logs / "events").mkdir()
    # As SPARK_CONF_DIR it would be a folder on Java's class path, with which Java maps no classes that it kept.
    given = f"--properties-file {shlex.quote(str(logs / 'spark.properties'))} pyspark-shell"
    began, spent = time.monotonic(), Spent()
    with Child(argv, log=logs / "log", env={"PYSPARK_SUBMIT_ARGS": given}) as child:
        while child.running:
            spent.look(child.pid)
            time.sleep(_LOOK)
        seconds = time.monotonic() - began
        if child.wait(WITHIN):
            raise ChildProcessError(child.output())
    counts = _counted(next((logs / "events").iterdir()))
    return Done(seconds, spent.total(), counts[_JOB], counts[_TASK])


class Spent:
    """The processor time of a process and its children, as far as it was seen: Java ends after who started it."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}

    def look(self, pid: int) -> None:
        """Take what they have used until now."""
        for process in Usage([pid]).processes():
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                self._seconds[process.pid] = times.user + times.system

    def total(self) -> float:
        """Return the sum."""
        return sum(self._seconds.values())


def _counted(log: Path) -> Counter[str]:
    """Return how many events of each kind Spark wrote down."""
    with log.open() as lines:
        return Counter(json.loads(line)["Event"] for line in lines)
