"""``bus pipeline``: the jobs. ``spark-submit`` runs the same commands with ``pipeline/__main__.py``."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from bus.bootstrap.extras import extra
from bus.cli.options import AsJson

_ROLLUP: Final = """\b
Examples:
  bus pipeline rollup --events data/events --lake lake --once
  bus pipeline rollup --kafka 127.0.0.1:9092 --lake s3://bucket/lake --connectors jars"""
_BASELINE: Final = """\b
Examples:
  bus pipeline baseline --lake lake --report norms.html
  bus pipeline baseline --lake lake --backtest"""
app = typer.Typer(
    name="pipeline",
    help="Jobs on Spark over trace events and the store.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

LakeRoot = Annotated[str, typer.Option("--lake", help="Folder or URI of the lake's tables.")]
Master = Annotated[
    str | None, typer.Option(help="Spark's master; left out: every core here, or what spark-submit gave.")
]
Memory = Annotated[str, typer.Option(help="Of the driver, in local mode.")]
Connectors = Annotated[Path | None, typer.Option(help="Folder that `bus pipeline connectors` filled.")]


@app.command(epilog="Example:  bus pipeline connectors jars")
def connectors(folder: Annotated[Path, typer.Argument(help="Where to put the jars.")], as_json: AsJson = False) -> None:
    """Have Maven copy Spark's connectors to Kafka and MongoDB into a folder."""
    from bus.cli.output import print_json  # noqa: PLC0415
    from pipeline.connectors import install  # noqa: PLC0415

    jars = install(folder)
    if as_json:
        print_json({"folder": str(folder), "jars": [jar.name for jar in jars]})
    else:
        typer.echo(f"{len(jars)} jars in {folder}")


@app.command(epilog=_ROLLUP)
def rollup(
    lake: LakeRoot,
    events: Annotated[str | None, typer.Option(help="Folder of trace events, DATA/events of a bus.")] = None,
    kafka: Annotated[str | None, typer.Option(help="HOST:PORT of Kafka brokers, in place of a folder.")] = None,
    topic: Annotated[str, typer.Option(help="Topic of the trace events.")] = "bus-events",
    checkpoint: Annotated[
        str | None, typer.Option(help="Where the stream keeps its progress; else in the lake.")
    ] = None,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds from batch to batch.")] = 5.0,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there was read.")] = False,
    late: Annotated[int, typer.Option(min=0, help="Seconds after which an event that arrives is late.")] = 600,
    master: Master = None,
    memory: Memory = "2g",
    connectors: Connectors = None,
    as_json: AsJson = False,
) -> None:
    """Turn trace events into rollups, as they come."""
    with extra("pipeline"):
        from pipeline.commands.rolling import RollupOptions, run  # noqa: PLC0415
    options = RollupOptions(
        lake, events, kafka, topic, checkpoint or f"{lake}/_checkpoints", 0 if once else every, late
    )
    run(options, master=master, memory=memory, connectors=connectors, as_json=as_json)


@app.command(epilog=_BASELINE)
def baseline(
    lake: LakeRoot,
    weeks: Annotated[int, typer.Option(min=1, help="Of history to look at, back from the end.")] = 8,
    before: Annotated[datetime | None, typer.Option(help="End of the history, UTC; else that of the rollups.")] = None,
    backtest: Annotated[
        bool, typer.Option("--backtest", help="Judge the past with faults put into it; publish nothing.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of where faults are put.")] = 1,
    report: Annotated[Path | None, typer.Option(help="Write a page with charts there.")] = None,
    master: Master = None,
    memory: Memory = "2g",
    as_json: AsJson = False,
) -> None:
    """Find out what is usual in each hour of the week: volume, latency and failures, as limits for alarms."""
    with extra("pipeline"):
        from pipeline.commands.baselining import BaselineOptions, run  # noqa: PLC0415
    options = BaselineOptions(lake, weeks, before, backtest, seed, report)
    run(options, master=master, memory=memory, as_json=as_json)
