"""``bus pipeline``: the jobs. ``spark-submit`` runs the same commands with ``pipeline/__main__.py``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from bus.cli.grouping import grouped
from bus.cli.options import AsJson, Output, Server
from pipeline.options import RangeOptions, SessionOptions

_ROLLUP: Final = """\b
Examples:
  bus pipeline rollup --events data/events --lake lake --once
  bus pipeline rollup --kafka 127.0.0.1:9092 --lake /mnt/lake --connectors jars"""
_COMPACT: Final = """\b
Examples:
  bus pipeline compact --lake lake
  bus pipeline compact --lake lake --older-than 6 --vacuum 72"""
_ARCHIVE: Final = """\b
Examples:
  bus pipeline archive --store sqlite:///data/store --lake lake --older-than 14 --dry-run
  bus pipeline archive --store mongodb://127.0.0.1/bus --lake /mnt/lake --connectors jars"""
_REPLAY: Final = """\b
Examples:
  bus pipeline replay again-1 --lake lake --where "destination = 'orders' and biz_id like 'A-%'" --dry-run
  bus pipeline replay again-1 --lake lake --store sqlite:///data/store --where "destination = 'orders'" --rate 50
  bus pipeline replay again-1 --lake lake --store sqlite:///data/store     (goes on with it, or tells how it stands)
  bus pipeline replay again-2 --lake lake --where "destination = 'orders'" --into orders-for-shop"""
_FIND: Final = "Example:  bus pipeline find 0199c1f0-7a00-7000-8000-000000000001 --lake lake"
_RECONCILE: Final = """\b
Examples:
  bus pipeline reconcile --lake lake --store sqlite:///data/store --report proof.html
  bus pipeline reconcile --lake lake --from 24h --json
  bus pipeline reconcile --lake lake --store mongodb://127.0.0.1/bus --connectors jars --repair --api-key KEY
  bus pipeline reconcile --lake lake --store sqlite:///data/store --from 25h --tell --api-key KEY"""
_BASELINE: Final = """\b
Examples:
  bus pipeline baseline --lake lake --report norms.html
  bus pipeline baseline --lake lake --backtest"""
_JUDGE: Final = """\b
Examples:
  bus pipeline judge --lake lake
  bus pipeline judge --lake lake --tell --api-key KEY"""
_SERVE: Final = """\b
Examples:
  bus pipeline serve --data data
  bus pipeline serve --config bus.toml --api-key KEY --metrics-port 9464"""
app = typer.Typer(
    name="pipeline",
    help="Jobs on Spark over trace events and the store.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Tell = Annotated[bool, typer.Option("--tell", help="Put what is found into the bus, as alarms.")]
MetricsPort = Annotated[int | None, typer.Option(min=1, max=65535, help="Serve metrics to Prometheus there.")]
MetricsHost = Annotated[str, typer.Option(help="Address that --metrics-port is bound to.")]
LakeRoot = Annotated[
    str, typer.Option("--lake", help="Folder of the lake's tables, or s3a://BUCKET/PATH, hdfs://HOST/PATH.")
]
Store = Annotated[str, typer.Option(help="The bus's store: sqlite:///PATH or mongodb://HOST/DATABASE.")]


@contextmanager
def _spark() -> Iterator[None]:
    """Say which extra is missing when Spark is; `bus` itself loads nothing for that."""
    from bus.extras import extra  # noqa: PLC0415

    with extra("pipeline"):
        yield


@app.command(epilog="Example:  bus pipeline connectors jars")
def connectors(
    folder: Annotated[Path, typer.Argument(help="Where to put the jars: a folder for them alone, new or not.")],
    as_json: AsJson = False,
) -> None:
    """Download Spark's connectors into a folder.

    Maven copies the connectors to Kafka, MongoDB and S3, and replaces the jars in the folder. A folder that contains
    other files is refused and not changed.
    """
    from bus.cli.output import print_json  # noqa: PLC0415
    from pipeline.connectors import install  # noqa: PLC0415

    jars = install(folder)
    if as_json:
        print_json({"folder": str(folder), "jars": [jar.name for jar in jars]})
    else:
        typer.echo(f"{len(jars)} jars in {folder}")


@app.command(epilog="Example:  bus pipeline prepare")
def prepare(*, as_json: AsJson = False) -> None:
    """Cache Spark's classes, so that Spark starts faster.

    The file of 150 MB halves the start time on this host. It is in ~/.cache/pier/java, or $XDG_CACHE_HOME/pier/java,
    and can be deleted at any time. It is for one version of Java and Spark: run this command again after an upgrade.
    """
    with _spark():
        from pipeline.commands.preparing import run  # noqa: PLC0415
    run(as_json=as_json)


@app.command(epilog=_ROLLUP)
@grouped
def rollup(
    lake: LakeRoot,
    *,
    events: Annotated[str | None, typer.Option(help="Folder of trace events, DATA/events of a bus.")] = None,
    kafka: Annotated[str | None, typer.Option(help="HOST:PORT of Kafka brokers, in place of a folder.")] = None,
    topic: Annotated[str, typer.Option(help="Topic of the trace events.")] = "bus-events",
    checkpoint: Annotated[
        str | None, typer.Option(help="Where the stream keeps its progress; else in the lake.")
    ] = None,
    every: Annotated[float, typer.Option(min=0.5, help="Seconds from batch to batch.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="End when all that is there was read.")] = False,
    batch: Annotated[float, typer.Option(min=0.001, help="MiB that a batch reads at most.")] = 256.0,
    partitions: Annotated[int, typer.Option(min=1, help="Tasks of a batch; the first start fixes it.")] = 4,
    late: Annotated[int, typer.Option(min=0, help="Seconds after which an event that arrives is late.")] = 600,
    session: SessionOptions,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    accept_gap: Annotated[
        bool, typer.Option("--accept-gap", help="Go on behind what Kafka does not have any more.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Aggregate trace events into rollups as they arrive."""
    with _spark():
        from pipeline.commands.rolling import RollupOptions, run  # noqa: PLC0415
    place, pace = checkpoint or f"{lake}/_checkpoints", 0 if once else every
    metrics = (metrics_host, metrics_port) if metrics_port is not None else None
    options = RollupOptions(lake, events, kafka, topic, place, pace, batch, partitions, late, metrics, accept_gap)
    run(options, session, as_json=as_json)


@app.command(epilog=_SERVE)
@grouped
def serve(
    *,
    config: Annotated[Path | None, typer.Option(help="bus.toml of the bus.")] = None,
    data: Annotated[Path | None, typer.Option(help="Directory of the bus.")] = None,
    session: SessionOptions,
    metrics_port: MetricsPort = None,
    metrics_host: MetricsHost = "127.0.0.1",
    as_json: AsJson = False,
    server: Server,
) -> None:
    """Run the rollup, and all other jobs on a schedule.

    The jobs reconcile, judge, compact, baseline and archive run on the schedule in the table pipeline of bus.toml, and
    on request. Their state is on the page Pipeline of the admin.
    """
    with _spark():
        from bus.settings import load_settings  # noqa: PLC0415
        from pipeline.commands.telling import ReportTarget  # noqa: PLC0415
        from pipeline.serving.command import run  # noqa: PLC0415
        from pipeline.serving.plan import plan_of  # noqa: PLC0415
    settings = load_settings(config, {"data": data})
    told = server.local(settings)
    telling = ReportTarget(told.url, told.key or ("" if told.is_from_context else settings.api_key))
    metrics = (metrics_host, metrics_port) if metrics_port is not None else None
    run(plan_of(settings, telling, session), session, metrics, as_json=as_json)


@app.command(epilog="Example:  bus pipeline rebuild --lake lake")
@grouped
def rebuild(lake: LakeRoot, *, session: SessionOptions, as_json: AsJson = False) -> None:
    """Rebuild the rollups from the events in the lake."""
    with _spark():
        from pipeline.commands.rebuilding import run  # noqa: PLC0415
    run(lake, session, as_json=as_json)


@app.command(epilog=_COMPACT)
def compact(
    lake: LakeRoot,
    older_than: Annotated[float, typer.Option(min=0, help="Hours since an hour ended.")] = 1,
    vacuum: Annotated[
        float, typer.Option(min=0, help="Hours for which what was replaced stays, for who still reads it.")
    ] = 24,
    keep: Annotated[bool, typer.Option("--keep", help="Remove nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge small commits and remove replaced files.

    The commits of an hour become one.
    """
    with _spark():
        from pipeline.commands.compacting import run  # noqa: PLC0415
    run(lake, older_than=older_than, grace=None if keep else vacuum, as_json=as_json)


@app.command(epilog=_ARCHIVE)
@grouped
def archive(
    store: Store,
    lake: LakeRoot,
    *,
    older_than: Annotated[int, typer.Option(min=1, help="Days since the last id of a partition was made.")] = 14,
    keep: Annotated[bool, typer.Option("--keep", help="Archive and verify, but drop nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be archived.")] = False,
    session: SessionOptions,
    output: Output,
    server: Server,
) -> None:
    """Move old messages from the store to the lake.

    Messages with their attempts are verified in the lake before the bus drops them.
    """
    with _spark():
        from pipeline.commands.archiving import ArchiveOptions, run  # noqa: PLC0415
    options = ArchiveOptions(store, lake, older_than, server.url, server.key, keep, dry_run)
    run(options, session, output=output)


@app.command(epilog=_FIND)
@grouped
def find(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="Of the message.", show_default=False)],
    lake: LakeRoot,
    *,
    output: Output,
) -> None:
    """Show an archived message with its body and deliveries."""
    with _spark():
        from pipeline.commands.finding import run  # noqa: PLC0415
    run(lake, message_id, output=output)


@app.command(epilog=_RECONCILE)
@grouped
def reconcile(
    lake: LakeRoot,
    *,
    store: Annotated[
        str | None, typer.Option(help="The bus's store as a second witness: sqlite:///PATH or mongodb://HOST/DATABASE.")
    ] = None,
    times: RangeOptions,
    allowance: Annotated[str, typer.Option(help="For how long a message is too young to be judged.")] = "10m",
    horizon: Annotated[str, typer.Option(help="How long deliveries are retried at most.")] = "7d",
    complete: Annotated[
        bool, typer.Option("--complete", help="The lake has all that was emitted until now: rollup --once just ended.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report there.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Have the bus deliver what is missing.")] = False,
    rate: Annotated[float | None, typer.Option(help="Messages a second of the repair.")] = None,
    reorder: Annotated[bool, typer.Option("--reorder", help="Repair also what then is out of a strict order.")] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the repair's outcomes.")] = 600,
    tell: Tell = False,
    session: SessionOptions,
    output: Output,
    server: Server,
) -> int:
    """Prove that no message was lost, or list missing ones.

    Exit 0: proven, or the verdict "unsettled": not over yet, or not to be judged since a process lost its events.
    1: deliveries are missing. 3: not enough data, for example no rollup since. 4: nothing is missing, but events
    contain outcomes that the store lacks.
    """
    with _spark():
        from pipeline.commands.reconciling import ReconcileOptions, run  # noqa: PLC0415
        from pipeline.commands.repairing import RepairOptions  # noqa: PLC0415
        from pipeline.commands.telling import ReportTarget  # noqa: PLC0415
        from pipeline.commands.values import plan_of  # noqa: PLC0415
    plan = plan_of(*times.read(), allowance, horizon, complete=complete)
    repairing = RepairOptions(server.url, server.key, rate, wait, reorder) if repair else None
    telling = ReportTarget(server.url, server.key) if tell else None
    options = ReconcileOptions(lake, store, plan, report, repairing, telling)
    return run(options, session, output=output)


@app.command(epilog=_REPLAY)
@grouped
def replay(
    name: Annotated[str, typer.Argument(help="Of the replay: its selection is frozen under it, once for ever.")],
    lake: LakeRoot,
    *,
    where: Annotated[
        str | None, typer.Option(help="Which messages, in Spark's SQL; left out to go on with a frozen selection.")
    ] = None,
    store: Annotated[str | None, typer.Option(help="The bus's store, to select from it as well.")] = None,
    times: RangeOptions,
    into: Annotated[
        str | None, typer.Option(help="Destination that gets the copies; left out: that of each original.")
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Messages a second.")] = 100.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be selected.")] = False,
    session: SessionOptions,
    as_json: AsJson = False,
    server: Server,
) -> None:
    """Send messages of archive and store again, as copies.

    The copies are new messages with a mark. Exit 1: some were rejected.
    """
    with _spark():
        from pipeline.commands.replaying import ReplayOptions, run  # noqa: PLC0415
        from pipeline.commands.values import moment_of  # noqa: PLC0415
        from pipeline.jobs.replay import ReplaySelection  # noqa: PLC0415
    since, before = map(moment_of, times.read())
    if where is None:
        for option, given in (("--into", into), ("--from", since), ("--to", before)):
            if given is not None:
                raise typer.BadParameter("a selection is frozen with it; give --where", param_hint=option)
    asked = ReplaySelection(where, store, since, before, into) if where is not None else None
    options = ReplayOptions(name, lake, asked, store, rate, server.url, server.key, dry_run)
    run(options, session, as_json=as_json)


@app.command(epilog=_BASELINE)
@grouped
def baseline(
    lake: LakeRoot,
    *,
    weeks: Annotated[int, typer.Option(min=1, help="Of history to look at, back from the end.")] = 8,
    before: Annotated[
        str | None, typer.Option(help="End of the history, RFC 3339 or a duration ago; else that of the rollups.")
    ] = None,
    backtest: Annotated[
        bool, typer.Option("--backtest", help="Judge the past with faults put into it; publish nothing.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Of where faults are put.")] = 1,
    report: Annotated[Path | None, typer.Option(help="Write a page with charts there.")] = None,
    session: SessionOptions,
    output: Output,
) -> None:
    """Compute the norms of each hour of the week.

    Norms of volume, latency and failures are limits for alarms.
    """
    with _spark():
        from bus.cli.options import read_time  # noqa: PLC0415
        from pipeline.commands.baselining import BaselineOptions, run  # noqa: PLC0415
        from pipeline.commands.values import moment_of  # noqa: PLC0415
    end = moment_of(read_time(before, "--before"))
    options = BaselineOptions(lake, weeks, end, backtest, seed, report)
    run(options, session, output=output)


@app.command(epilog=_JUDGE)
@grouped
def judge(lake: LakeRoot, *, tell: Tell = False, session: SessionOptions, output: Output, server: Server) -> int:
    """List deviations from the norms in the last hours.

    A deviation is outside of its norms in two of the last three full hours. Exit 0: no deviations. 1: deviations. 3:
    not enough data, for example no norms yet or no rollup since.
    """
    with _spark():
        from pipeline.commands.judging import JudgeOptions, run  # noqa: PLC0415
        from pipeline.commands.telling import ReportTarget  # noqa: PLC0415
    return run(JudgeOptions(lake, ReportTarget(server.url, server.key) if tell else None), session, output=output)
