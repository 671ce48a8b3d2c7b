"""The rollup job on a standalone cluster: a master and a worker as processes of their own, and spark-submit."""

import os
import sys
from pathlib import Path

import pyspark
import pytest

from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.schemas import EVENTS, ROLLUPS
from tests.harness.process import ROOT, Child, free_port
from tests.harness.trace_lines import blocks, settled
from tests.harness.waiting import wait_until

SPARK = Path(pyspark.__file__).parent
NOW = 1_763_700_000_000
COUNT = 5_000
CENTURY = str(100 * 365 * 86_400)
ENVIRONMENT = {"SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def spark_class(name: str, *arguments: str, log: Path) -> Child:
    return Child([str(SPARK / "bin" / "spark-class"), name, *arguments], log=log, env=ENVIRONMENT)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_spark_submit_rolls_files_up_on_a_standalone_cluster(tmp_path):
    events = tmp_path / "events"
    events.mkdir()
    lines = blocks(settled(NOW - number, attempt_id=str(number)) for number in range(COUNT))
    (events / "a.jsonl").write_text("".join(lines))
    port, pages = free_port(), free_port()
    url = f"spark://127.0.0.1:{port}"
    place = ["--host", "127.0.0.1", "--webui-port"]
    master = spark_class(
        "org.apache.spark.deploy.master.Master", *place, str(pages), "--port", str(port), log=tmp_path / "master.log"
    )
    worker = spark_class(
        "org.apache.spark.deploy.worker.Worker",
        *place,
        str(free_port()),
        "--cores",
        "2",
        "--memory",
        "2g",
        "--work-dir",
        str(tmp_path / "work"),
        url,
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
        submit = [str(SPARK / "bin" / "spark-submit"), "--master", url, "--properties-file"]
        settings = [str(ROOT / "deploy" / "spark" / "settings.conf"), "--conf", "spark.executor.memory=1g"]
        job = [str(ROOT / "pipeline" / "__main__.py"), "rollup", "--events", str(events), "--once", "--late", CENTURY]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        with Child(
            [*submit, *settings, *job, "--lake", str(tmp_path / "lake"), "--json"],
            log=tmp_path / "submit.log",
            env=ENVIRONMENT | {"PATH": path},
        ) as submitted:
            assert submitted.wait(600) == 0, submitted.output()
        assert (tmp_path / "work").is_dir(), "no executor ran on the worker"
        assert list((tmp_path / "work").glob("app-*/*/stderr"))
    lake = Lake(Storage(str(tmp_path / "lake")))
    assert sum(file.rows for file in lake.files(EVENTS)) == COUNT
    assert sum(file.rows for file in lake.files(ROLLUPS)) >= 1
