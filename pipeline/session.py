"""The Spark session of a job: the same code from a laptop's threads to a cluster."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from bus.errors import ConfigurationError
from pipeline.class_archive import mapping_options
from pipeline.connectors import jars_in
from pipeline.errors import JobFailed, line_of
from pipeline.object_store import is_object_store, spark_settings
from pipeline.options import SessionOptions

_LOGGED: Final = "ERROR"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_STATE: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # State that survives a kill at the price of a small file per batch, on disk instead of in the heap.
    "spark.sql.streaming.stateStore.providerClass": _STATE,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A batch without data would only clean up the state, at the price of a commit.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    # Milliseconds between two reports that a stream has nothing to read, which a proof relies on.
    "spark.sql.streaming.noDataProgressEventInterval": "1000",
    # A source that lost records must stop the job; the gap must not be skipped.
    "spark.sql.streaming.kafka.allowNonConsecutiveOffsets": "false",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Jobs beside a stream, in a pool of their own, take half of the tasks' places and not all of them.
    "spark.scheduler.mode": "FAIR",
    # Millions of small keys: aggregate in a hash map before falling back to a sort.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",
    "spark.ui.showConsoleProgress": "false",
    # Errors do not show the line of Python, and recording it takes six calls to Java for each column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
"""The settings of every job, on any cluster; ``docs/pipeline.md`` gives the reasons."""
SMALL: Final = 1_000_000
"""With fewer rows than this a run is small: planning and compiling take longer than its rows."""
_JAVA: Final = "spark.driver.extraJavaOptions"
_JAVA_ENVIRONMENT: Final = ("SPARK_SUBMIT_OPTS", "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS")
_FEW_ROWS: Final = {
    # One task after a shuffle, so that there is nothing to plan anew between two stages, each with a job of its own.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
}
_LOCAL: Final = {
    # Few rows are left after an aggregation, and a task of Spark costs more than a thousand rows.
    "spark.sql.shuffle.partitions": "16",
}
"""Settings of local mode; a cluster's come by ``spark-submit`` or PYSPARK_SUBMIT_ARGS, as in ``settings.conf``."""
_LOCAL_SMALL: Final = {
    # Files are looked at here, and not by a job with a task for each.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    **_FEW_ROWS,
}
"""Settings of local mode for a small run, each measured apart: docs/performance.md."""


def open_session(
    name: str,
    *,
    master: str | None = None,
    memory: str = "2g",
    connectors: Path | None = None,
    ui: bool = False,
    small: bool = False,
    lake: str = "",
    java_options: Sequence[str] | None = None,
) -> SparkSession:
    """Return the session of a job.

    Parameters
    ----------
    name
        Shown in Spark's pages.
    master
        ``local[N]`` or a cluster's URL; None for the one that ``spark-submit`` gave, else every core of this machine.
    memory
        Of the driver in local mode, where it does all the work.
    small
        Whether less than ``SMALL`` rows are read, which local mode is then set up for.
    connectors
        Folder of the connectors' jars (``bus pipeline connectors``); None when the job reads files only.
    lake
        Its root, which may be in an object store.
    java_options
        Of the driver in local mode; None to have it map Spark's classes where ``bus pipeline prepare`` kept them.

    Raises
    ------
    ConfigurationError
        The connectors or Java are missing.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder, settings = SparkSession.builder.appName(name), SETTINGS | {"spark.ui.enabled": str(ui).lower()}
    if master is None and "SPARK_ENV_LOADED" not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            settings |= _LOCAL_SMALL if small else _LOCAL
            settings |= {"spark.driver.memory": memory, _JAVA: _java_options(java_options, small=small)}
    if is_object_store(lake):
        _check_connectors(lake, connectors)
        settings |= spark_settings()
    for key, value in settings.items():
        builder = builder.config(key, value)
    if connectors is not None:
        builder = builder.config("spark.jars", ",".join(str(jar) for jar in jars_in(connectors)))
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise ConfigurationError(
            f"Spark did not start: {error}", hint="it needs Java 17 or 21: set JAVA_HOME, or put java on the PATH"
        ) from error
    session.sparkContext.setLogLevel(_LOGGED)
    # Py4J logs a lost connection with a traceback to the root logger, besides raising an error.
    logging.getLogger().addHandler(logging.NullHandler())
    # PySpark logs its errors with Java's whole trace; commands print them as one line.
    for told in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(told).disabled = True
    return session


def _check_connectors(lake: str, connectors: Path | None) -> None:
    """Check that Java will have the classes for a lake in an object store; raises ``ConfigurationError``."""
    if connectors is None:
        raise ConfigurationError(
            f"the lake {lake} needs Spark's connector", hint="bus pipeline connectors jars; --connectors jars"
        )
    if "PYSPARK_GATEWAY_PORT" in os.environ and not _submitted_jars():
        raise ConfigurationError(
            f"spark-submit started Java without {connectors}, which the lake {lake} needs from the start",
            hint=f"spark-submit --jars with all jars of {connectors}, separated by commas",
        )


def _submitted_jars() -> str:
    """Return the jars that ``spark-submit`` was given, separated by commas."""
    SparkContext._ensure_initialized()  # noqa: SLF001 - Java has them, and is asked for them only once it is known
    return SparkConf().get("spark.jars", "")


def _java_options(more: Sequence[str] | None, *, small: bool) -> str:
    """Return the options of Java; the collector is left out where the environment names one, for it takes only one."""
    options = [f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
    if small:  # the second compiler takes more time than it saves before millions of rows
        options.append("-XX:TieredStopAtLevel=1")
    if not any("GC" in os.environ.get(name, "") for name in _JAVA_ENVIRONMENT):
        options.append("-XX:+UseSerialGC" if small else "-XX:+UseParallelGC")
    return " ".join([*options, *(mapping_options() if more is None else more)])


@contextmanager
def few_rows(session: SparkSession) -> Iterator[None]:
    """Have what is run in the ``with`` block planned for few rows between its stages, as in a small run.

    What is read may be large. A cluster keeps the settings that it was given.
    """
    with configured(session, _FEW_ROWS if str(session.sparkContext.master).startswith("local") else {}):
        yield


@contextmanager
def small_run(session: SparkSession) -> Iterator[None]:
    """Have what is run in the ``with`` block planned as in a small run of its own, as far as a session may change."""
    with configured(session, _LOCAL_SMALL if str(session.sparkContext.master).startswith("local") else {}):
        yield


@contextmanager
def configured(session: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Have a session run with some settings in the ``with`` block, and with those of before behind it."""
    before = {name: str(session.conf.get(name)) for name in settings}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            session.conf.set(name, value)


@contextmanager
def silent(session: SparkSession) -> Iterator[None]:
    """Have Spark log nothing, while it is stopped in the middle of work on purpose."""
    session.sparkContext.setLogLevel("OFF")
    try:
        yield
    finally:
        session.sparkContext.setLogLevel(_LOGGED)


@contextmanager
def running(
    name: str,
    options: SessionOptions,
    lake: str,
    *,
    small: bool = False,
    java_options: Sequence[str] | None = None,
) -> Iterator[SparkSession]:
    """Give the session of a command on a lake, all else as ``open_session`` says, and stop it.

    Raises
    ------
    ConfigurationError
        As ``open_session`` does.
    JobFailed
        Spark failed, or its own process ended in the middle; a stream's own error is left to the caller.
    """
    with _own_interrupt():
        session = open_session(name, small=small, lake=lake, java_options=java_options, **asdict(options))
    try:
        yield session
    except (StreamingQueryException, BrokenPipeError):  # a broken pipe is of the command's standard output
        raise
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise _failed(error) from error
    finally:
        with suppress(Py4JError, OSError):
            session.stop()


def _failed(error: Exception) -> JobFailed:
    with suppress(Py4JError, OSError):
        if isinstance(error, PySparkException | Py4JJavaError):
            return JobFailed(
                f"Spark failed: {line_of(error)}; committed batches stay",
                hint="repair the cause and run it again",
            )
    return JobFailed(
        "Spark's own process ended in the middle; what was committed stays",
        hint="look whether the machine ran out of memory (--memory), and start it again",
    )


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Restore the handler of SIGINT after the ``with`` block, and defer the signal until then.

    The handler that Spark installs would call its process in the middle of another call, and fail.
    """
    handler = signal.getsignal(signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
