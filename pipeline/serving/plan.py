"""The plan of a running pipeline, from the settings of its bus."""

from __future__ import annotations

from typing import Final, NamedTuple

from bus.cli.api import Api
from bus.domain.durations import parse_duration
from bus.domain.pipelines import Job
from bus.errors import ConfigurationError
from bus.settings import PipelineSettings, Settings
from pipeline.commands.looking import check_lake, check_store
from pipeline.commands.telling import ReportTarget
from pipeline.options import SessionOptions
from pipeline.serving.schedule import Schedule

_DURATIONS: Final = (
    "reconcile_range",
    "reconcile_allowance",
    "reconcile_horizon",
    "compact_after",
    "compact_vacuum",
)


class Kafka(NamedTuple):
    """The source of trace events in Kafka."""

    bootstrap: str
    topic: str


class ServingPlan(NamedTuple):
    """The inputs of the service.

    Attributes
    ----------
    events
        A folder of trace events, or Kafka.
    telling
        The bus that receives the results.
    set
        The table ``pipeline`` of the settings.
    """

    lake: str
    store: str
    events: str | Kafka
    telling: ReportTarget
    schedule: Schedule
    set: PipelineSettings

    @property
    def checkpoint(self) -> str:
        """The folder of the stream's progress."""
        return f"{self.lake}/_checkpoints"

    def milliseconds(self, name: str) -> int:
        """Return a setting that is a duration."""
        return parse_duration(getattr(self.set, name))


def plan_of(settings: Settings, telling: ReportTarget, session: SessionOptions) -> ServingPlan:
    """Return the plan of the service.

    Raises
    ------
    ConfigurationError
        A setting is impossible, what it names is not there, or the address of the bus is none.
    """
    table = settings.pipeline
    for name in _DURATIONS:
        _check_duration(name, getattr(table, name))
    plan = ServingPlan(
        table.lake or str(settings.data / "lake"),
        settings.store or f"sqlite:///{settings.data / 'store'}",
        _events(settings, session),
        telling,
        Schedule({job: getattr(table, job) for job in Job}, table.timezone),
        table,
    )
    check_lake(plan.lake)
    check_store(plan.store, session)
    with Api(telling.url, telling.api_key):  # an address that is none is refused before Spark starts
        return plan


def _events(settings: Settings, session: SessionOptions) -> str | Kafka:
    if settings.events == "kafka":
        return _kafka(settings, session)
    if settings.events == "none":
        raise ConfigurationError(
            'this bus has events = "none", so there is nothing to read', hint='set events to "files" or "kafka"'
        )
    if not settings.data.is_dir():
        raise ConfigurationError(f"there is no bus in {settings.data}", hint="start it first: bus up; or give --data")
    folder = settings.data / "events"
    folder.mkdir(mode=0o700, exist_ok=True)  # a bus that has not emitted anything yet has none
    return str(folder)


def _kafka(settings: Settings, session: SessionOptions) -> Kafka:
    if session.connectors is None:
        raise ConfigurationError(
            "Kafka needs Spark's connector", hint="bus pipeline connectors jars; --connectors jars"
        )
    if not settings.kafka_bootstrap:
        raise ConfigurationError("events are on Kafka, and kafka_bootstrap is empty", hint="HOST:PORT of its brokers")
    if settings.kafka_tls or settings.kafka_username:
        raise ConfigurationError(
            "the pipeline reads Kafka without encryption and without a login, and this bus has one",
            hint="give it brokers' listeners that need neither, in a bus.toml of its own",
        )
    return Kafka(settings.kafka_bootstrap, settings.kafka_prefix + settings.events_topic)


def _check_duration(name: str, text: str) -> None:
    try:
        parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(f"pipeline.{name}: {error}", hint="such as 10m, 25h or 7d") from error
