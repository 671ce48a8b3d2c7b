"""Which master and settings a session is opened with: on one machine, on a cluster, and below ``spark-submit``."""

from __future__ import annotations

import logging
from typing import Any, Self

import pytest

from pipeline import session
from pipeline.session import SETTINGS, open_session


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
    monkeypatch.delenv("SPARK_ENV_LOADED", raising=False)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    return made


LOCAL = {"spark.driver.memory", "spark.sql.shuffle.partitions", "spark.driver.extraJavaOptions"}


@pytest.mark.parametrize(("master", "url"), [(None, "local[*]"), ("local[2]", "local[2]")])
def test_on_one_machine_the_driver_does_all(builder: Builder, master: str | None, url: str) -> None:
    open_session("x", master=master, memory="3g")
    assert builder.given.items() >= SETTINGS.items()
    assert (builder.given["spark.master"], builder.given["spark.driver.memory"]) == (url, "3g")
    assert set(builder.given) >= LOCAL


@pytest.mark.parametrize("master", ["spark://master:7077", "k8s://https://kubernetes.default.svc"])
def test_a_cluster_has_the_settings_that_it_was_given(builder: Builder, master: str) -> None:
    open_session("x", master=master, memory="3g")
    assert builder.given["spark.master"] == master
    assert not LOCAL & set(builder.given)


def test_spark_submit_says_where_a_job_runs(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_ENV_LOADED", "1")
    open_session("x")
    assert not (LOCAL | {"spark.master"}) & set(builder.given)
