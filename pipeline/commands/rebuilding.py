"""``bus pipeline rebuild``."""

from __future__ import annotations

import sys

from bus.cli.output import print_json, progress
from pipeline.jobs.rollup import ROLLUP_LINE, rebuild
from pipeline.lake.lake import Lake
from pipeline.lake.storage import Storage
from pipeline.options import SessionOptions
from pipeline.session import running


def run(root: str, session: SessionOptions, *, as_json: bool) -> None:
    """Build what is missing; a run that is cut off goes on where it was."""
    with running("rebuild", session) as spark, progress() as shown:
        bar = shown.add_task("batches", total=None)
        built = rebuild(spark, Lake(Storage(root)), lambda done, of: shown.update(bar, completed=done, total=of))
    if as_json:
        print_json({"line": ROLLUP_LINE, "built": built})
    else:
        sys.stdout.write(f"{built} batches rolled up for {ROLLUP_LINE}\n")
