"""``bus pipeline replay``."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from bus.cli.api import Api
from bus.cli.output import print_fields, print_json, progress
from bus.clock import SystemClock
from bus.domain.replay import check_name
from bus.errors import ConfigurationError
from pipeline.commands.following import following
from pipeline.commands.looking import check_lake, check_store, lake_with
from pipeline.errors import JobFailed
from pipeline.jobs.replay import LINE, ReplaySelection, balance, freeze, known, selection
from pipeline.jobs.resending import send
from pipeline.lake.lake import Lake
from pipeline.lake.manifest import Manifest
from pipeline.lake.storage import Storage
from pipeline.options import SessionOptions
from pipeline.schemas import MESSAGES
from pipeline.session import running


class ReplayOptions(NamedTuple):
    """The arguments of the command; without ``asked`` it continues a replay that was frozen before."""

    name: str
    lake: str
    asked: ReplaySelection | None
    store: str | None
    rate: float
    url: str
    api_key: str
    dry_run: bool = False


def run(options: ReplayOptions, session: SessionOptions, *, as_json: bool) -> None:
    """Freeze the selection, send it, and report the progress.

    Raises
    ------
    JobFailed
        Messages were rejected; they were reported with the reasons, and all others were sent.
    """
    try:
        check_name(options.name)
    except ValueError as error:
        raise ConfigurationError(f"a replay cannot be called so: {error}", hint="backfill-1") from error
    _check_source(options, session)
    with running("replay", session, options.lake) as spark:
        found = replay(spark, options)
    if as_json:
        print_json(found)
    else:
        print_fields(found)
    if found.get("rejected"):
        raise JobFailed(
            f"{found['rejected']} of {found['selected']} messages were rejected; all others were sent",
            hint="mend what `rejections` says of them, and select them by their ids under another name",
        )


def _check_source(options: ReplayOptions, session: SessionOptions) -> None:
    """Check that there are messages to select from, or a selection to continue; raises ``ConfigurationError``."""
    check_lake(options.lake)
    check_store(options.store, session)
    if options.asked is None:
        _frozen(Lake(Storage(options.lake)), options)
        return
    lake = Lake(Storage(options.lake)) if options.store is not None else lake_with(options.lake, MESSAGES)
    if not options.dry_run and lake.begin(LINE, options.name) is None:
        known(lake, options.name, options.asked)


def _frozen(lake: Lake, options: ReplayOptions) -> Manifest:
    if options.dry_run:
        raise ConfigurationError("a dry run needs conditions", hint="--where \"destination = 'orders'\"")
    return known(lake, options.name)


def replay(spark: SparkSession, options: ReplayOptions) -> dict[str, Any]:
    """Do the command's work in a session that is open; return its result."""
    lake = Lake(Storage(options.lake))
    if options.asked is None:
        manifest = _frozen(lake, options)
    elif options.dry_run:
        with following(spark, "selecting"):
            chosen = selection(spark, lake, options.asked).select("id").distinct()
            return {"replay": options.name, "selected": chosen.count()}
    else:
        with following(spark, "selecting"):
            manifest = freeze(spark, lake, options.name, options.asked, SystemClock().now())
    selected = manifest.facts["selected"]
    with progress() as shown, Api(options.url, options.api_key) as api:
        task = shown.add_task(options.name, total=selected)
        sent = send(
            lake.storage, manifest, api, options.rate, lambda sending: shown.update(task, completed=sending.done)
        )
    told: dict[str, Any] = {
        "replay": options.name,
        "selected": selected,
        "accepted": sent.accepted,
        "rejected": len(sent.rejected),
        "rejections": sent.rejected,
    }
    if options.store is not None:
        with following(spark, "balancing"):
            found = balance(spark, lake, manifest, options.store, sent.accepted)
        told |= found._asdict() | {"balanced": found.is_closed}
    return told
