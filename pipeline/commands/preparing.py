"""``bus pipeline prepare``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark import SparkContext

from bus.cli.output import console, print_json
from bus.errors import ConfigurationError
from bus.files import make_directory, sync, sync_directory
from pipeline.class_archive import archive_file, writing_options
from pipeline.errors import JobFailed
from pipeline.options import SessionOptions
from pipeline.session import running

_WRITTEN_WITHIN: Final = 300.0
"""Seconds; an idle machine of two cores needs four."""


def run(*, as_json: bool) -> None:
    """Have Java keep the classes that a small session loads. The file is whole and durable when it returns.

    Raises
    ------
    ConfigurationError
        There is no place for the file.
    JobFailed
        Java did not write it; it said why on standard error.
    OSError
        The disk does not take it.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        raise ConfigurationError("spark-submit started Java without the options for it", hint="bus pipeline prepare")
    file = archive_file()
    if file is None:
        raise ConfigurationError(
            "there is no place to keep Spark's classes in",
            hint="it needs Java and Spark, and a cache folder of a name without spaces: set XDG_CACHE_HOME",
        )
    make_directory(file.parent)
    with TemporaryDirectory(dir=file.parent) as folder, console(stderr=True).status("keeping Spark's classes"):
        fresh = Path(folder, "classes.jsa")
        _write(fresh, Path(folder, "rows"))
        sync(fresh)
        fresh.replace(file)
        sync_directory(file.parent)
    size = file.stat().st_size
    if as_json:
        print_json({"file": str(file), "bytes": size})
    else:
        sys.stdout.write(f"Spark's classes are in {file} ({size / 2**20:.0f} MiB); what starts Spark here maps them\n")


def _write(fresh: Path, rows: Path) -> None:
    """Have a session do what all jobs do, read and write Parquet files, and Java end."""
    options, java_options = SessionOptions(master="local[1]"), writing_options(fresh)
    with running("prepare", options, "", small=True, java_options=java_options) as session:
        gateway: Any = SparkContext._gateway  # noqa: SLF001 - nothing public ends Java
        session.range(1000).selectExpr("id", "id % 7 AS k").write.parquet(str(rows))
        session.read.parquet(str(rows)).groupBy("k").count().collect()
    if _ended(gateway.proc) != 0 or not fresh.exists():
        raise JobFailed(
            "Java kept no classes; commands start as they did",
            hint="it says above what hinders it: a folder on its class path (conf), an agent, a full disk",
        )


def _ended(java: Any) -> int | None:
    """End Java, a ``Popen``, and return its exit code; None if that took too long and it was killed."""
    java.stdin.close()  # its sign to end
    try:
        return int(java.wait(_WRITTEN_WITHIN))
    except TimeoutExpired:
        return None
    finally:
        java.kill()
        java.wait()
