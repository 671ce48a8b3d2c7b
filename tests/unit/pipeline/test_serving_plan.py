"""The plan of a running pipeline from the settings of its bus; impossible ones are refused before Spark starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bus.errors import ConfigurationError
from bus.settings import PipelineSettings, Settings
from pipeline.commands.telling import ReportTarget
from pipeline.options import SessionOptions
from pipeline.serving.plan import Kafka, ServingPlan, plan_of

URL = "http://127.0.0.1:8700"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the directory of a bus that has a store and has told nothing yet."""
    folder = tmp_path / "data"
    (folder / "store" / "partitions").mkdir(parents=True)
    (folder / "store" / "control.db").touch()
    return folder


def plan(data: Path, *, url: str = URL, connectors: Path | None = None, **fields: Any) -> ServingPlan:
    return plan_of(Settings(data=data, **fields), ReportTarget(url, ""), SessionOptions(connectors=connectors))


def test_without_settings_all_is_below_the_data_of_the_bus(data: Path) -> None:
    made = plan(data)
    assert (made.lake, made.store, made.events) == (
        str(data / "lake"),
        f"sqlite:///{data / 'store'}",
        str(data / "events"),
    )
    assert made.checkpoint == str(data / "lake" / "_checkpoints")
    assert made.milliseconds("reconcile_range") == 25 * 3_600_000
    assert (data / "events").stat().st_mode & 0o777 == 0o700


def test_events_on_kafka_are_read_from_the_topic_of_the_bus(data: Path, tmp_path: Path) -> None:
    made = plan(data, connectors=tmp_path, events="kafka", kafka_bootstrap="k:9092", kafka_prefix="east-")
    assert made.events == Kafka("k:9092", "east-bus-events")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"events": "none"}, "nothing to read"),
        ({"events": "kafka"}, "Kafka needs Spark's connector"),
        ({"events": "kafka", "connectors": Path()}, "kafka_bootstrap is empty"),
        ({"events": "kafka", "connectors": Path(), "kafka_bootstrap": "k:1", "kafka_tls": True}, "without encryption"),
        ({"events": "kafka", "connectors": Path(), "kafka_bootstrap": "k:1", "kafka_username": "u"}, "without a login"),
        ({"pipeline": PipelineSettings(reconcile_range="soon")}, "pipeline.reconcile_range"),
        ({"pipeline": PipelineSettings(lake="gs://bucket/lake")}, "gs"),
        ({"store": "postgres://x"}, "allowed are"),
        ({"url": "nonsense"}, "not an http or https address"),
    ],
)
def test_what_cannot_be_is_said_with_what_to_do(data: Path, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        plan(data, **fields)
    assert refused.value.hint


def test_a_directory_without_a_bus_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no bus in"):
        plan(tmp_path / "data")
    assert list(tmp_path.iterdir()) == []
