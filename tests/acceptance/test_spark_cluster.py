"""The rollup job on a standalone cluster: a master and a worker as processes, and drivers of both kinds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS, ROLLUPS
from tests.harness.lake_places import LakePlace
from tests.harness.process import ROOT, Child, free_port
from tests.harness.trace_lines import blocks, settled
from tests.harness.waiting import wait_until
from tests.servers import need
from tests.servers.s3_fixtures import bucket, lake_place, s3_server

__all__ = ["bucket", "lake_place", "s3_server"]

SPARK = Path(pyspark.__file__).parent
NOW = 1_763_700_000_000
COUNT = 5_000
DEPLOY = ROOT / "deploy" / "spark"
SETTINGS = DEPLOY / "settings.conf"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
CENTURY = str(100 * 365 * 86_400)
ENVIRONMENT = {"SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def spark_class(name: str, *arguments: str, log: Path) -> Child:
    return Child([str(SPARK / "bin" / "spark-class"), name, *arguments], log=log, env=ENVIRONMENT)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a master that has a worker."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    place = ["--host", "127.0.0.1", "--webui-port"]
    master = spark_class(
        "org.apache.spark.deploy.master.Master",
        *(*place, str(free_port()), "--port", str(port)),
        log=tmp_path / "master.log",
    )
    worker = spark_class(
        "org.apache.spark.deploy.worker.Worker",
        *(*place, str(free_port()), "--cores", "2", "--memory", "2g", "--work-dir", str(tmp_path / "work"), url),
        log=tmp_path / "worker.log",
    )
    with master, worker:
        for child in (master, worker):
            wait_until(
                lambda child=child: child.check_running() and "egister" in child.log.read_text(),
                within=120,
                what="a worker at the master",
                state=child.output,
            )
        yield url
    assert list((tmp_path / "work").glob("app-*/*/stderr")), "no executor ran on the worker"


@pytest.fixture
def events(tmp_path: Path) -> Path:
    folder = tmp_path / "events"
    folder.mkdir()
    lines = blocks(settled(NOW - number, attempt_id=str(number)) for number in range(COUNT))
    (folder / "a.jsonl").write_text("".join(lines))
    return folder


def rolled_up(place: Path) -> int:
    """Return how many events a lake has, of which there are rollups too."""
    lake = Lake(Storage(str(place)))
    return sum(file.rows for file in lake.files(EVENTS)) if lake.files(ROLLUPS) else 0


def _for_a_bucket() -> list[str]:
    """Return the options of ``spark-submit``: Java's jars, and what executors are to reach it by."""
    given = [f"spark.executorEnv.{name}={value}" for name, value in os.environ.items() if name.startswith("AWS_")]
    jars = ",".join(map(str, need("connectors").glob("*.jar")))
    return ["--jars", jars, *(word for setting in given for word in ("--conf", setting))]


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_spark_submit_rolls_files_up_on_a_standalone_cluster(
    tmp_path: Path, cluster: str, events: Path, lake_place: LakePlace
) -> None:
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", cluster, "--properties-file", str(SETTINGS)]
    bucket = _for_a_bucket() if lake_place.options else []
    job = [str(ROOT / "pipeline" / "__main__.py"), "rollup", "--events", str(events), "--once", "--late", CENTURY]
    with Child(
        [
            *(*submit, *bucket, "--conf", "spark.executor.memory=1g", *job, "--lake", lake_place.name, "--json"),
            *map(str, lake_place.options),
        ],
        log=tmp_path / "submit.log",
        env=ENVIRONMENT | {"PATH": PATH},
    ) as submitted:
        assert submitted.wait(600) == 0, submitted.output()
    assert rolled_up(lake_place.folder) == COUNT


@pytest.mark.proof
@pytest.mark.timeout(300)
def test_spark_submit_without_the_jars_of_a_bucket_is_told_of_them(
    tmp_path: Path, events: Path, bucket: LakePlace
) -> None:
    submit = [str(SPARK / "bin" / "spark-submit"), "--master", "local[1]"]
    job = [str(ROOT / "pipeline" / "__main__.py"), "rollup", "--events", str(events), "--lake", bucket.name]
    with Child(
        [*submit, *job, *map(str, bucket.options)], log=tmp_path / "submit.log", env=ENVIRONMENT | {"PATH": PATH}
    ) as submitted:
        assert submitted.wait(200) == 1
        assert "spark-submit --jars" in submitted.output()


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_driver_of_the_image_ends_its_stream_when_it_is_asked_to_go(
    tmp_path: Path, cluster: str, events: Path
) -> None:
    lake = tmp_path / "lake"
    stream = ["rollup", "--master", cluster, "--events", events, "--lake", lake, "--late", CENTURY, "--every", 1]
    given = f"--properties-file {SETTINGS} --conf spark.executor.memory=1g pyspark-shell"
    with Child(
        [str(DEPLOY / "entrypoint.sh"), "job", *map(str, stream)],
        log=tmp_path / "job.log",
        env=ENVIRONMENT | {"PATH": PATH, "PYSPARK_SUBMIT_ARGS": given},
    ) as driver:
        wait_until(
            lambda: driver.check_running() and rolled_up(lake) == COUNT,
            within=300,
            what="a batch on the cluster",
            state=driver.output,
        )
        assert "-Xmx1g" in " ".join(java_of(driver)), "the driver's memory is that of the settings"
        assert driver.stop(120) == 0, driver.output()
        assert "Traceback" not in driver.output()
        assert "error:" not in driver.output()


def java_of(driver: Child) -> list[str]:
    """Return how the Java that a driver started was called."""
    (java,) = [each for each in psutil.Process(driver.pid).children(recursive=True) if "java" in each.name()]
    return java.cmdline()
