"""``bus pipeline rebuild``."""

from __future__ import annotations

import sys

from bus.cli.output import print_json, progress
from pipeline.commands.looking import lake_with
from pipeline.jobs.rollup import rebuild
from pipeline.lake.batches import ROLLUP_LINE
from pipeline.options import SessionOptions
from pipeline.schemas import EVENTS
from pipeline.session import running


def run(root: str, session: SessionOptions, *, as_json: bool) -> None:
    """Build what is missing; a run that is cut off continues where it was."""
    lake = lake_with(root, EVENTS)
    with running("rebuild", session, root) as spark, progress() as shown:
        bar = shown.add_task("batches", total=None)
        built = rebuild(spark, lake, lambda done, of: shown.update(bar, completed=done, total=of))
    if as_json:
        print_json({"line": ROLLUP_LINE, "built": built})
    else:
        sys.stdout.write(f"{built} batches rolled up for {ROLLUP_LINE}\n")
