"""Master and settings of a session: on one machine, on a cluster, and below ``spark-submit``."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from bus.errors import ConfigurationError
from pipeline import session
from pipeline.object_store import endpoint, spark_settings
from pipeline.session import SETTINGS, few_rows, open_session


class Builder:
    """Takes what Spark's own does."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def appName(self, name: str) -> Self:  # noqa: N802 - Spark's name
        return self.config("spark.app.name", name)

    def master(self, url: str) -> Self:
        return self.config("spark.master", url)

    def config(self, key: str, value: str) -> Self:
        self.given[key] = value
        return self

    def getOrCreate(self) -> Any:  # noqa: N802
        class Session:
            class sparkContext:  # noqa: N801
                @staticmethod
                def setLogLevel(_level: str) -> None:  # noqa: N802
                    pass

        return Session()


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    made = Builder()
    monkeypatch.setattr(session, "SparkSession", type("Spark", (), {"builder": made}))
    for name in ("SPARK_ENV_LOADED", "SPARK_SUBMIT_OPTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(session, "mapping_options", lambda: [MAPS])
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    return made


ENDPOINT = "spark.hadoop.fs.s3a.endpoint"
JAVA = "spark.driver.extraJavaOptions"
MAPS = "-XX:SharedArchiveFile=/kept.jsa"
LOCAL = {"spark.driver.memory", "spark.sql.shuffle.partitions", "spark.driver.extraJavaOptions"}


@pytest.mark.parametrize(("master", "url"), [(None, "local[*]"), ("local[2]", "local[2]")])
def test_on_one_machine_the_driver_does_all(builder: Builder, master: str | None, url: str) -> None:
    open_session("x", master=master, memory="3g")
    assert builder.given.items() >= SETTINGS.items()
    assert (builder.given["spark.master"], builder.given["spark.driver.memory"]) == (url, "3g")
    assert set(builder.given) >= LOCAL


def test_a_small_run_has_one_task_behind_a_shuffle_and_a_java_that_starts_fast(builder: Builder) -> None:
    open_session("x", small=True)
    small, java = dict(builder.given), builder.given[JAVA]
    assert (small["spark.sql.shuffle.partitions"], small["spark.sql.adaptive.enabled"]) == ("1", "false")
    assert "TieredStopAtLevel=1" in java
    assert "GC" in java
    open_session("x")
    assert (builder.given["spark.sql.shuffle.partitions"], builder.given["spark.sql.adaptive.enabled"]) == (
        "16",
        "true",
    )
    assert "TieredStopAtLevel" not in builder.given[JAVA]


def test_the_collector_of_the_environment_stays_for_java_takes_only_one(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseZGC")
    for small in (True, False):
        open_session("x", small=small)
        assert "GC" not in builder.given[JAVA]


def test_a_lake_in_an_object_store_is_reached_as_the_environment_says(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "hadoop-aws.jar").touch()
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    open_session("x", connectors=tmp_path, lake="s3a://bucket/lake")
    assert builder.given.items() >= spark_settings().items()
    assert not {ENDPOINT, f"{ENDPOINT}.region"} & set(builder.given)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://storage:9000")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    open_session("x", connectors=tmp_path, lake="s3a://bucket/lake")
    assert (builder.given[ENDPOINT], builder.given[f"{ENDPOINT}.region"]) == ("http://storage:9000", "eu-west-1")


def test_a_lake_in_an_object_store_needs_the_connectors(builder: Builder) -> None:
    with pytest.raises(ConfigurationError, match="needs Spark's connector") as refused:
        open_session("x", lake="s3a://bucket/lake")
    assert "bus pipeline connectors" in refused.value.hint
    assert "spark.driver.memory" not in builder.given


def test_an_address_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "storage:9000")
    with pytest.raises(ConfigurationError, match="storage:9000"):
        endpoint()


@pytest.mark.parametrize(("master", "within"), [("local[*]", "1"), ("spark://master:7077", "200")])
def test_a_part_of_a_run_is_planned_for_few_rows_on_one_machine(master: str, within: str) -> None:
    given = {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "true"}
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(master=master), conf=SimpleNamespace(get=given.get, set=given.__setitem__)
    )
    with few_rows(spark):
        assert given["spark.sql.shuffle.partitions"] == within
    assert given == {"spark.sql.shuffle.partitions": "200", "spark.sql.adaptive.enabled": "true"}


@pytest.mark.parametrize("master", ["spark://master:7077", "k8s://https://kubernetes.default.svc"])
def test_a_cluster_has_the_settings_that_it_was_given(builder: Builder, master: str) -> None:
    open_session("x", master=master, memory="3g")
    assert builder.given["spark.master"] == master
    assert not LOCAL & set(builder.given)


def test_spark_submit_says_where_a_job_runs(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_ENV_LOADED", "1")
    open_session("x")
    assert not (LOCAL | {"spark.master"}) & set(builder.given)


def test_java_maps_the_classes_that_were_kept_but_where_they_are_being_written(builder: Builder) -> None:
    open_session("a job", small=True)
    assert MAPS in builder.given[JAVA].split()
    open_session("a job", java_options=["-XX:ArchiveClassesAtExit=/fresh"])
    assert MAPS not in builder.given[JAVA]
    assert "-XX:ArchiveClassesAtExit=/fresh" in builder.given[JAVA].split()
